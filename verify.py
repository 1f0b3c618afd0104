#!/usr/bin/env python3
# verify.py BASE : compares tokens without comments of all changed files
import subprocess,sys,re
sys.path.insert(0,'/tmp/t')
base=sys.argv[1];root='/work/wt/c1'
def sh(*a): return subprocess.run(a,cwd=root,capture_output=True,text=True).stdout
TOK=re.compile(r'''R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'|//(?:[^\n\\]|\\.)*|/\*.*?\*/''',re.S)
def strip(t):
    t=TOK.sub(lambda m:' ' if m[0].startswith('//') or m[0].startswith('/*') else m[0],t)
    lines=[re.sub(r'[ \t]+',' ',l).strip() for l in t.split('\n')]
    return [l for l in lines if l]
bad=0
for f in sh('git','diff','--name-only',base).split():
    if not re.search(r'\.(h|cc|cu|cuh)$',f): print('NOT SOURCE',f);bad=1;continue
    a=strip(sh('git','show',f'{base}:{f}'));b=strip(open(f'{root}/{f}').read())
    if a!=b:
        if ' '.join(a).replace(' ','')==' '.join(b).replace(' ',''): print('whitespace/linebreak only',f)
        else: print('DIFFERENT',f);bad=1
    for i,l in enumerate(open(f'{root}/{f}').read().split('\n')):
        if len(l)>110: print('LONG',f,i+1)
fs=[f for f in sh('git','diff','--name-only',base).split()]
if fs:
    r=subprocess.run(['clang-format','--dry-run','-Werror']+fs,cwd=root,capture_output=True,text=True)
    print('clang-format',r.returncode,r.stderr[:3000])
print('bad' if bad else 'ok',len(fs))
