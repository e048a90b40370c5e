# files: yes
# timeout: 240
# Every kind of thing renamed to every kind of thing, with each flag.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

# put KIND NAME
put() {
	case $1 in
	none) ;;
	file) echo "$2" >"$2" ;;
	symlink) ln -s "to-$2" "$2" ;;
	fifo) mkfifo "$2" ;;
	empty) mkdir "$2" ;;
	full)
		mkdir "$2"
		echo "in $2" >"$2/x"
		;;
	esac
}
kind() { stat -c %F "$1" 2>/dev/null | sed 's/regular.*file/file/; s/symbolic link/symlink/' || :; }
class() { case $1 in none) echo none ;; empty | full) echo dir ;; *) echo file ;; esac; }

# What rename(2) says for FLAG OLD NEW: an errno or "ok".
wanted() {
	local old new
	old=$(class "$2")
	new=$(class "$3")
	[ "$old" != none ] || { echo ENOENT; return; }
	case $1 in
	noreplace) [ "$new" = none ] && echo ok || echo EEXIST ;;
	exchange) [ "$new" = none ] && echo ENOENT || echo ok ;;
	plain)
		case $old-$new in
		*-none) echo ok ;;
		file-dir) echo EISDIR ;;
		dir-file) echo ENOTDIR ;;
		dir-dir) [ "$3" = full ] && echo ENOTEMPTY || echo ok ;;
		*) echo ok ;;
		esac
		;;
	esac
}

# try FLAG OLDKIND NEWKIND OLDNAME NEWNAME
try() {
	local said code=0 ino_old ino_new want
	rm -rf p q
	mkdir p q
	put "$2" "$4"
	put "$3" "$5"
	ino_old=$(stat -c %i "$4" 2>/dev/null) || :
	ino_new=$(stat -c %i "$5" 2>/dev/null) || :
	want=$(wanted "$1" "$2" "$3")
	said=$(sysx rename "$1" "$4" "$5") || code=$?
	[ $code = 0 ] && said=ok
	expect_equal "$said" "$want" "rename $*"
	if [ "$want" != ok ]; then
		expect_equal "$(stat -c %i "$4" 2>/dev/null)" "$ino_old" "old name after $*"
		expect_equal "$(stat -c %i "$5" 2>/dev/null)" "$ino_new" "new name after $*"
		return 0
	fi
	expect_equal "$(stat -c %i "$5")" "$ino_old" "moved: $*"
	if [ "$1" = exchange ]; then
		expect_equal "$(stat -c %i "$4")" "$ino_new" "exchanged: $*"
	else
		[ ! -e "$4" ] && [ ! -L "$4" ] || die "the old name is still there: $*"
	fi
	[ "$2" != full ] || expect_equal "$(cat "$5/x")" "in $4"
	# What a directory counts as links is its subdirectories.
	expect_equal "$(stat -c %h p)" $((2 + $(find p -mindepth 1 -maxdepth 1 -type d | wc -l)))
	expect_equal "$(stat -c %h q)" $((2 + $(find q -mindepth 1 -maxdepth 1 -type d | wc -l)))
	local d
	for d in p q; do
		[ ! -d $d/n ] || expect_equal "$(stat -c %i $d/n/..)" "$(stat -c %i $d)" "dot-dot"
	done
}

kinds="none file symlink fifo empty full"
for flag in plain noreplace exchange; do
	for old in $kinds; do
		for new in $kinds; do
			try $flag "$old" "$new" p/n q/n # from one directory to another
			try $flag "$old" "$new" p/n p/m # in the same
		done
	done
done
rm -rf p q

# To itself, to another link of the same file, into itself, the root.
echo x >f
ln f g
sysx rename plain f f
sysx rename plain f g
expect_equal "$(stat -c %h f g | tr '\n' ' ')" "2 2 "
mkdir -p a/b/c
expect_errno EINVAL rename plain a a/b/c/d
expect_errno EINVAL rename plain a a/x
expect_errno ENOTEMPTY rename plain a/b/c a
expect_errno EINVAL rename exchange a a/b/c
expect_errno EINVAL rename noreplace,exchange a f
expect_errno EBUSY rename plain a/b/. x
expect_errno ENOENT rename plain a absent/x
expect_errno ENOTDIR rename plain a f/x

# An open file is still itself after its name went to another.
echo old >target
echo new >source
exec 5<target
mv source target
expect_equal "$(cat <&5)" old
exec 5<&-
expect_equal "$(cat target)" new

# Times: both directories change, the file's mtime does not, its ctime does.
mkdir t1 t2
touch -d '2001-01-01 UTC' t1/f t1 t2
sysx rename plain t1/f t2/f
expect_equal "$(stat -c %Y t2/f)" 978307200
for d in t1 t2; do [ "$(stat -c %Y $d)" -gt 1500000000 ] || die "mtime of $d did not change"; done

check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
