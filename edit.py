#!/usr/bin/env python3
# edit.py edits.txt : see format
import sys,re,textwrap
root='/work/wt/c1/'
edits={};cur=None;e=None
for n,line in enumerate(open(sys.argv[1]).read().split('\n')):
    if line.startswith('@ '): cur=line[2:].strip(); edits.setdefault(cur,[]); e=None; continue
    m=re.match(r'^(\d+)(?:-(\d+))?(\+|t)?(?: (.*))?$',line)
    if m and not line.startswith('//'):
        a=int(m[1]);b=int(m[2] or a)
        e={'a':a,'b':b,'ins':m[3]=='+','t':m[3]=='t','new':[m[4]] if m[4] else []}
        edits[cur].append(e); continue
    if line.startswith('//'): e['new'].append(line); continue
    if line.strip()=='' : continue
    sys.exit(f'line {n+1}: cannot parse: {line}')
def split(l):
    # position of // outside strings
    i=0;s=None
    while i<len(l):
        c=l[i]
        if s:
            if c=='\\': i+=1
            elif c==s: s=None
        elif c=='"': s=c
        elif c=="'" and not (i and l[i-1].isalnum()): s=c
        elif l.startswith('//',i): return i
        i+=1
    return -1
def wrap(text,indent):
    m=re.match(r'^(//[/<!]*)( ?)(.*)$',text)
    p,rest=m[1],m[3]
    if rest=='' or rest.startswith('  ') or rest.startswith(' '): 
        r=indent+text
        if len(r)>110: print('TOO LONG',r)
        return [r]
    return textwrap.wrap(rest,width=110,initial_indent=indent+p+' ',subsequent_indent=indent+p+' ',break_long_words=False,break_on_hyphens=False)
bad=0
for f,es in edits.items():
    L=open(root+f).read().split('\n')
    es=sorted(es,key=lambda e:(e['a'],0 if e['ins'] else 1),reverse=True)
    last=10**9
    for e in es:
        a,b=e['a'],e['b']
        if e['ins']:
            ind=re.match(r' *',L[a-1])[0]
            L[a-1:a-1]=[w for t in e['new'] for w in wrap(t,ind)]
            if a>last: print('OVERLAP',f,a);bad=1
            last=a;continue
        if b>=last: print('OVERLAP',f,a,b);bad=1
        last=a
        old=L[a-1:b]
        if all(re.match(r'^ *//',o) for o in old) :
            ind=re.match(r' *',old[0])[0]
            L[a-1:b]=[w for t in e['new'] for w in wrap(t,ind)]
        else:
            if a!=b: print('NOT COMMENT',f,a,b,old);bad=1;continue
            p=split(old[0])
            if p<0: print('NO COMMENT',f,a,old);bad=1;continue
            code=old[0][:p]
            if len(e['new'])>1: print('MULTI trailing',f,a);bad=1;continue
            if e['t']: # move above the line
                ind=re.match(r' *',code)[0]
                L[a-1:a]=[w for t in e['new'] for w in wrap(t,ind)]+[code.rstrip()]
            else:
                L[a-1]=(code+e['new'][0]) if e['new'] else code.rstrip()
                if len(L[a-1])>110: print('LONG',f,a,L[a-1])
    edits[f]=L
if bad: sys.exit('nothing written')
for f,L in edits.items(): open(root+f,'w').write('\n'.join(L))
print('ok',len(edits))
