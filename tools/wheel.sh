#!/usr/bin/env bash
# Builds the release programs and makes a wheel of them in build/dist. It needs nothing but Python where it is installed:
# auditwheel copies the shared libraries into it, except those that every Linux has, and names the oldest manylinux whose
# glibc and libstdc++ have all symbols that the programs and their libraries use.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh wheel
tools/build.sh

work=build/wheel
venv=$work/venv
if ! cmp -s tools/wheel/requirements.txt $venv/requirements.txt; then
  echo "wheel: installing the Python packages of tools/wheel/requirements.txt into $venv"
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install --quiet --no-deps --requirement tools/wheel/requirements.txt
  cp tools/wheel/requirements.txt $venv/requirements.txt
fi

# The CUDA backend goes to lib, which is empty where none was built.
rm -rf $work/prefix $work/plain build/dist/*.whl
mkdir -p $work/prefix/lib
cmake --install build --prefix $work/prefix --strip > /dev/null

# Whoever hands on a library hands on its licence.
licences=$work/prefix/share/doc/mtf-train/licences
mkdir -p $licences
for library in $(ldd $work/prefix/bin/* | awk '/=>/ { print $3 }' | sort -u); do
  package=$(dpkg-query --search "*$library" | cut -d: -f1)
  cp "/usr/share/doc/$package/copyright" "$licences/$package"
done

$venv/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $work/plain tools/wheel
PATH=$PWD/$venv/bin:$PATH auditwheel repair --wheel-dir build/dist $work/plain/*.whl
echo "wheel: $(ls "$PWD"/build/dist/*.whl)"
