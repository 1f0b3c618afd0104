#!/usr/bin/env bash
# Downloads and unpacks Debian 12 packages with documentation, without installing them: fetch.sh DIRECTORY GROUP...
#
#   core     120 MB: manuals of LibreOffice, GNOME and Debian and man pages, with German and French translations
#   more     350 MB: the GIMP manual, and stories and messages of a game (Battle for Wesnoth), in German
#   english   75 MB: further English documentation
#
# The files are written to DIRECTORY/tree, the versions to DIRECTORY/packages.txt. Packages in DIRECTORY/archives are not
# downloaded again.
set -euo pipefail
export LC_ALL=C

core=(libreoffice-help-en-us libreoffice-help-de libreoffice-help-fr libreoffice-l10n-de libreoffice-l10n-fr
  gnome-user-docs debian-handbook debian-reference-en debian-reference-de debian-reference-fr installation-guide-amd64
  manpages manpages-dev manpages-de manpages-de-dev manpages-fr manpages-fr-dev systemd util-linux util-linux-locales
  coreutils e2fsprogs btrfs-progs apt dpkg dpkg-dev mount procps passwd git gcc-12-locales evolution-common
  gnome-control-center-data)
more=(gimp-help-en gimp-help-de wesnoth-1.16-data)
for campaign in httt tsg trow ttb ei utbs did nr sof sotbe l thot low dm; do more+=("wesnoth-1.16-$campaign"); done
english=(postgresql-doc-15 python3.11-doc linux-doc-6.1 perl-doc sqlite3-doc dict-foldoc fortunes debian-policy)

[ $# -ge 2 ] || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 2; }
directory=$1
shift
packages=()
for group in "$@"; do
  case $group in
    core | more | english) declare -n group_packages=$group && packages+=("${group_packages[@]}") ;;
    *) echo "fetch: no group $group; there are core, more and english" >&2 && exit 2 ;;
  esac
done

mkdir -p "$directory/archives" "$directory/tree"
directory=$(realpath "$directory")
cd "$directory/archives"
archive() { compgen -G "$1_*.deb" | head -n 1; }
missing=()
for package in "${packages[@]}"; do
  [ -n "$(archive "$package")" ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "fetch: downloading ${#missing[@]} packages into $directory/archives"
  apt-get -q download "${missing[@]}" || { apt-get -q update && apt-get -q download "${missing[@]}"; }
fi
for package in "${packages[@]}"; do
  done=$directory/tree/.$package
  [ -e "$done" ] || { dpkg-deb -x "$(archive "$package")" "$directory/tree" && touch "$done"; }
done
for file in *.deb; do dpkg-deb -W --showformat='${Package} ${Version}\n' "$file"; done | sort -u > "$directory/packages.txt"
echo "fetch: $(wc -l < "$directory/packages.txt") packages, unpacked in $directory/tree"
