#!/usr/bin/env bash
# The installed tree and the Debian package: programs run from there with the configurations beside them, a CUDA backend is
# found there, and the package names what it depends on.
source "$2/tests/end_to_end/common.sh"
build=$(dirname "$(dirname "$mtf_train")")
programs=(mtf-bleu mtf-compare mtf-convert mtf-launch mtf-train mtf-vocab)

# expect_tree DIRECTORY: the programs without symbols, configurations and documents, and nothing of the tests.
expect_tree() {
  local program
  [ "$(ls "$1/bin" | paste -sd' ')" = "${programs[*]}" ] || fail "$1/bin has other programs: $(ls "$1/bin")"
  for program in "${programs[@]}"; do
    ! readelf --sections "$1/bin/$program" | grep -q '\.symtab' || fail "$program is not stripped"
  done
  diff -r "$source_dir/configs" "$1/share/mtf-train/configs" || fail "other configurations are installed"
  diff -r "$source_dir/docs" "$1/share/doc/mtf-train/docs" || fail "other documents are installed"
  for file in README.md CHANGELOG.md; do
    cmp "$source_dir/$file" "$1/share/doc/mtf-train/$file" || fail "another $file is installed"
  done
  ! find "$1" | grep -iE 'test|emulat|\.(a|h|cmake)$' || fail "the installed files have more than users need"
}

# The programs work from their prefix. mtf-launch finds them on PATH.
cmake --install "$build" --prefix "$work/prefix" --strip > /dev/null
expect_tree prefix
export PATH=$work/prefix/bin:$PATH
version=$(sed -n 's/^project(mtf_train VERSION \([0-9.]*\).*/\1/p' "$source_dir/CMakeLists.txt")
for program in "${programs[@]}"; do
  expect_exit 0 "$program" --help
done
expect_exit 0 mtf-train --version
expect_text "$version"
read -ra data <<< "$(mnist_data)"
mnist=(prefix/share/mtf-train/configs/models/mnist.yaml "${data[@]}" train.steps=4 train.batch_size=40)
expect_exit 0 mtf-train "${mnist[@]}" run.model_dir=one
expect_text "finished after train.steps = 4"
explained=(prefix/share/mtf-train/configs/models/toy.yaml run.mode=explain hardware=h100_8x_nvlink_400g)
expect_exit 0 mtf-train "${explained[@]}"
# mtf-launch finds mtf-train beside itself, too.
expect_exit 2 env PATH=/usr/bin:/bin prefix/bin/mtf-launch -n 2 -- mtf-train "${mnist[@]}" train.stepz=4
expect_text 'did you mean `train.steps`?'
expect_exit 0 mtf-launch -n 2 -- mtf-train "${mnist[@]}" mesh=all:2 layout=batch:all run.model_dir=two
expect_exit 0 mtf-compare one two --tolerance 1e-5
printf 'Guten Tag, liebe Welt!\n' > text
[ "$(mtf-bleu text -i text -b)" = 100.0 ] || fail "BLEU of a text against itself"

# A CUDA backend beside the installed programs: the emulator has the same interface.
emulator=$build/lib/libmtf_cuda_emulator.so
if [ -e "$emulator" ]; then
  mkdir -p prefix/lib
  cp "$emulator" prefix/lib/libmtf_cuda.so
  expect_exit 0 mtf-train "${mnist[@]}" devices=cuda run.model_dir=cuda
fi

# The commands of the wheel: one for each program, which they become. Their mtf-launch finds mtf-train without PATH.
scripts=$(sed -n '/^mtf-.* = "mtf_train:/p' "$source_dir/tools/wheel/pyproject.toml")
[ "$(cut -d' ' -f1 <<< "$scripts" | paste -sd' ')" = "${programs[*]}" ] || fail "the wheel has other commands: $scripts"
mkdir -p site prefix/lib
cp -r "$source_dir/tools/wheel/mtf_train" site
sed -n 's|^"../../build/wheel/prefix/\(.*\)" = "\(mtf_train/.*\)"|\1 \2|p' "$source_dir/tools/wheel/pyproject.toml" |
  while read -r from to; do
    mkdir -p "site/$(dirname "$to")"
    cp -r "prefix/$from" "site/$to"
  done
# in_wheel FUNCTION ARGUMENT...: the command that calls this function.
in_wheel() { PATH=/usr/bin:/bin PYTHONPATH=site python3 -c "import mtf_train; mtf_train.$1()" "${@:2}"; }
for function in $(sed 's/.*mtf_train:\(.*\)"/\1/' <<< "$scripts"); do
  expect_exit 0 in_wheel "$function" --help
  expect_text "mtf-$function"
done
expect_exit 2 in_wheel launch -n 2 -- mtf-train "${mnist[@]}" train.stepz=4
expect_text 'did you mean `train.steps`?'
expect_exit 0 in_wheel train "${explained[@]}"

# The package. Other distributions have no dpkg.
if ! command -v dpkg-deb > /dev/null; then
  [ ! -e /etc/debian_version ] || fail "dpkg-deb is missing on Debian"
  echo "the rest is skipped: there is no dpkg-deb"
  exit 77
fi
cpack --config "$build/CPackConfig.cmake" -B packages -D CPACK_DEBIAN_COMPRESSION_TYPE=none > out 2>&1 ||
  { cat out >&2; fail "cpack"; }
package=packages/mtf-train_${version}_$(dpkg --print-architecture).deb
[ -e "$package" ] || { ls packages >&2; fail "there is no $package"; }
[ "$(dpkg-deb --field "$package" Version)" = "$version" ] || fail "the package has another version"
depends=$(dpkg-deb --field "$package" Depends)
for library in libc6 libstdc++6 libyaml-cpp libsentencepiece libgloo; do
  [[ $depends == *$library* ]] || fail "the package does not depend on $library: $depends"
done
dpkg-deb --extract "$package" extracted
expect_tree extracted/usr
[ "$(ls extracted)" = usr ] || fail "the package has other directories: $(ls extracted)"
expect_exit 0 extracted/usr/bin/mtf-train --version
expect_text "$version"
