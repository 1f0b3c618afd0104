#!/usr/bin/env bash
# Generates docs/reference from the programs' help: every key, every layer, every option of the command lines.
# tests/end_to_end/reference_test.sh fails if the result is not up to date. Usage: reference.sh [DIRECTORY],
# by default docs/reference.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
out=${1:-$root/docs/reference}
programs=${MTF_PROGRAMS:-$root/build/bin}
mkdir -p "$out"

# page FILE TITLE TEXT LANGUAGE COMMAND...: writes a page with the output of a command.
page() {
  local file=$1 title=$2 text=$3 language=$4
  shift 4
  {
    printf '# %s\n\n%s\nThis page is made by `tools/reference.sh`.\n\n```%s\n' "$title" "$text" "$language"
    "$programs/$1" "${@:2}"
    printf '```\n'
  } > "$out/$file"
}

page configuration.md "Keys of the configuration" \
  "Every key with its default, its type and its meaning, as \`mtf-train --help-config\` prints them; \`--help-config SECTION\`
prints one section." yaml mtf-train --help-config
page models.md "Models" \
  "Every type of model with its keys, as \`mtf-train --help-config model\` prints them." yaml mtf-train --help-config model
page layers.md "Layers" \
  "Every layer with its options, as \`mtf-train --list-layers\` prints them; \`--list-layers NAME\` prints one." \
  text mtf-train --list-layers
for program in mtf-train mtf-launch mtf-compare mtf-convert mtf-vocab mtf-bleu; do
  page "$program.md" "$program" "What \`$program --help\` prints." text "$program" --help
done
