# How hostile repositories are made from a usual one, which comes first. Each part behind a line
# `#: name, command` runs in the work tree of a copy; there, the command does harm, or may do so
# with another version of git. M is a program that leaves a mark where it runs, S a secret file
# outside of the workspace, and O another repository of the user.

old() { touch -d 2001-01-01 "$@"; }
sub() {
    git init -q -b main s; printf '* diff=d filter=x\n' > s/.gitattributes; echo a > s/t
    git -C s add .; git -C s commit -qm s1; echo b >> s/t; git -C s commit -qam s2
    git submodule --quiet add ./s s; git commit -qm sub
    git -C s checkout -q HEAD~1; git commit -qam back; git -C s checkout -q main; printf 'a\nc\n' > s/t
}
sign() {
    tree=$(git rev-parse HEAD^{tree}) tip=$(git rev-parse HEAD)
    for kind in 'PGP SIGNATURE' 'SIGNED MESSAGE' 'SSH SIGNATURE'; do
        tip=$( {
            printf 'tree %s\nparent %s\nauthor a <a@b.test> 1 +0000\n' $tree $tip
            printf 'committer a <a@b.test> 1 +0000\ngpgsig -----BEGIN %s-----\n \n abcd\n' "$kind"
            printf ' -----END %s-----\n\nsigned\n' "$kind"
        } | git hash-object -t commit -w --stdin)
    done
    git update-ref HEAD $tip
    {
        printf 'object %s\ntype commit\ntag vs\ntagger a <a@b.test> 1 +0000\n\nsigned\n' $tip
        printf -- '-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n'
    } | git mktag > .git/refs/tags/vs
    for kind in gpg gpg.openpgp gpg.x509 gpg.ssh; do git config $kind.program "$M"; done
    git config gpg.ssh.allowedSignersFile "$S"
}
blob() { git hash-object -w /dev/null; }
lose() {
    git config core.repositoryFormatVersion 1; git config extensions.partialClone origin
    git config remote.origin.promisor true
    for name in "$@"; do
        rm -f .git/objects/$(git rev-parse $name | sed 's,..,&/,')
    done
}
rename() {  # an entry of the index
    python3 - "$1" "$2" <<'P'
import hashlib, os, sys
old, new = map(os.fsencode, sys.argv[1:])
data = open(".git/index", "rb").read()[:-20].replace(old, new)
open(".git/index", "wb").write(data + hashlib.sha1(data).digest())
P
}

#: the usual one
git init -q -b main; mkdir d e; printf 'one\ntwo\nthree\n' > f; echo hello > d/secret; echo a > e/x
printf 'b\0\1' > b.bin; printf '* diff=d filter=x merge=m\n' > .gitattributes; echo '*.o' > .gitignore
git add -A; git commit -qm first; echo four >> f; git commit -qam second
git tag v1; git tag -a v2 -m annotated
git switch -qc side; sed -i s/one/1/ f; echo n > n; git add n; git commit -qam side
git switch -q main; echo five >> f; git commit -qam main; git merge -q side -m merged
echo stashed >> f; echo stashed >> b.bin; git stash -q
git remote add origin https://host.test/a.git
echo changed >> f; echo changed >> e/x; echo untracked > u; echo staged > staged; git add staged
#: file system monitor, git status
git config core.fsmonitor "$M"
#: file system monitor, oddly spelled, git ls-files -m
printf '[CORE] # x\n  fsmonitor = \\\n  %s\n' "$M" >> .git/config
#: hook, git status
mkdir -p .git/hooks; cp "$M" .git/hooks/post-index-change; old e/x
#: folder of hooks, git status
mkdir h; cp "$M" h/post-index-change; git config core.hooksPath h; old e/x
#: hook in the configuration, git status
git config hook.x.command "$M"; git config hook.x.event post-index-change; old e/x
#: filter for cleaning, git status
git config filter.x.clean "$M"; old e/x
#: filter for smudging, git diff
git config filter.x.smudge "$M"; old e/x
#: filter for both, git diff
git config filter.x.process "$M"; git config filter.x.required true; old e/x
#: filter by own attributes, git diff
echo '* filter=y' > .git/info/attributes; git config filter.y.clean "$M"; old e/x
#: filter in an included file, git ls-files -m
git config -f i filter.x.clean "$M"; git config include.path ../i; old e/x
#: filter in a file that is included on a branch, git diff
git config -f i filter.x.clean "$M"; git config includeIf.onbranch:main.path "$PWD/i"; old e/x
#: filter of one work tree, git diff
git config extensions.worktreeConfig true; git config --worktree filter.x.clean "$M"; old e/x
#: extension of a filter, git status
git config lfs.extension.x.clean "$M"
#: virtual file system, git status
git config core.virtualFileSystem "$M"
#: external diff, git diff
git config diff.external "$M"
#: diff driver, git diff HEAD~1 HEAD
git config diff.d.command "$M"
#: text converter, git blame f
git config diff.d.textconv "$M"; git config diff.d.cachetextconv true
#: drivers in an included file, git show
git config -f i diff.d.command "$M"; git config -f i diff.d.textconv "$M"
git config include.path ../i
#: merge driver, git log -p -m --all
git config merge.m.driver "$M %O %A %B"; git config log.diffMerges remerge
#: stashes with patches, git stash show
git config stash.showPatch true; git config diff.d.textconv "$M"; git config diff.external "$M"
#: pagers, git log
for key in core.pager pager.log pager.status pager.branch pager.tag interactive.diffFilter; do
    git config $key "$M"
done
#: editors and help, git log
for key in core.editor sequence.editor browser.x.cmd man.x.cmd; do git config $key "$M"; done
git config help.format web; git config web.browser x; git config man.viewer x
#: aliases, git log
for verb in log status diff show blame grep branch tag; do git config alias.$verb "!$M"; done
git config help.autocorrect immediate; git config trailer.x.command "$M"
#: credentials and transports, git remote -v
git config credential.helper "!$M"; git config url.ext::x.insteadOf https://host.test/
for key in core.askPass core.sshCommand core.gitProxy remote.origin.uploadpack; do
    git config $key "$M"
done
#: references of alternates, git log --all
git config core.alternateRefsCommand "$M"; mkdir -p .git/objects/info
echo "$O/.git/objects" > .git/objects/info/alternates
#: signatures, git log
sign; git config log.showSignature true
#: signatures in a format, git log
sign; git config format.pretty 'format:%H %G? %GG'; git config pretty.short %GG
#: submodule with a monitor, git status
sub; git -C s config core.fsmonitor "$M"
#: submodule with a filter, git status
sub; git -C s config filter.x.clean "$M"; old s/t
#: submodule that is never ignored, git status
sub; git -C s config filter.x.clean "$M"; old s/t; git config diff.ignoreSubmodules none
git config -f .gitmodules submodule.s.ignore none; git config submodule.s.ignore none
#: submodule with drivers, git log -p
sub; git config diff.submodule diff; git config status.submoduleSummary true
git -C s config diff.external "$M"; git -C s config diff.d.textconv "$M"
#: submodule in the history, git show HEAD~1
sub; git config diff.submodule diff; git -C s config diff.external "$M"
git rm -qf --cached s .gitmodules; git commit -qm gone; rm .gitmodules
#: submodule that is searched, git grep one
sub; git config submodule.recurse true; git -C s config core.fsmonitor "$M"
git -C s config filter.x.clean "$M"; git config diff.submodule log
#: repository within, git status
git init -q s; git -C s commit -qm m --allow-empty; git add s; git commit -qm s
git -C s config filter.x.clean "$M"; echo '* filter=x' > s/.gitattributes; git -C s add -N .
#: partial clone, any command, git log -p
lose HEAD:f HEAD~1:e/x HEAD~1^{tree}; git config remote.origin.url "ext::$M %S"; git config protocol.ext.allow always
#: partial clone of a folder, git log -p
lose HEAD:f HEAD~1:e/x HEAD~1^{tree}; git config remote.origin.url "$O"; git config remote.origin.uploadpack "$M"
git config protocol.file.allow always
#: partial clone by a helper, git cat-file -p HEAD:f
lose HEAD:f HEAD~1:e/x HEAD~1^{tree}; git config remote.origin.vcs ext; git config remote.origin.url "$M"
git config protocol.allow always
#: partial clone by SSH, git rev-list --objects --all
lose HEAD:f HEAD~1:e/x HEAD~1^{tree}; git config remote.origin.url ssh://host.test/a; git config core.sshCommand "$M"
#: objects of another repository, git log --all
mkdir -p .git/objects/info; echo "$O/.git/objects" > .git/objects/info/alternates
git -C "$O" rev-parse HEAD > .git/refs/heads/o
#: objects by a link, git log
rm -rf .git/objects; ln -s "$O/.git/objects" .git/objects
git -C "$O" rev-parse HEAD > .git/refs/heads/main
#: packs by a link, git show o:f
git -C "$O" repack -adq; rm -rf .git/objects/pack; ln -s "$O/.git/objects/pack" .git/objects/pack
git -C "$O" rev-parse HEAD > .git/refs/heads/o
#: replaced objects, git log
git replace HEAD~1 HEAD~2; git replace $(git rev-parse HEAD:e/x) $(git rev-parse HEAD:f)
#: grafts, git log
git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD~1 > .git/shallow
#: work tree elsewhere, git diff
git config core.worktree "$(dirname "$S")"; cp "$S" ../outside/f
#: work tree around, git diff
git update-index --add --cacheinfo 100644,$(blob),outside/secret
git config core.worktree "$(realpath ..)"
#: file .git, git show
mv .git g; echo "gitdir: $O/.git" > .git
#: file .git to a linked work tree, git log
git -C "$O" worktree add -q ../linked-other; mv .git g
echo "gitdir: $O/.git/worktrees/linked-other" > .git
#: link .git, git log
mv .git g; ln -s "$O/.git" .git
#: common folder elsewhere, git log
echo "$O/.git" > .git/commondir; git -C "$O" rev-parse HEAD > .git/HEAD
#: bare repository, git status
mv .git/* .; rmdir .git; git config -f config core.bare true
git config -f config core.fsmonitor "$M"; git config -f config filter.x.clean "$M"
#: bare repository that has a work tree, git -C b status
cp -r .git b; rm -rf .git; git config -f b/config core.worktree ..
git config -f b/config core.fsmonitor "$M"; git config -f b/config filter.x.clean "$M"; old e/x
#: index that names a file around, git diff
git update-index --add --cacheinfo 100644,$(blob),xx/outside/secret
rename xx/outside/secret ../outside/secret
#: index that names an absolute file, git diff-files -p
name=$(realpath "$S"); long=$(printf %s "$name" | tr -c x x)
git update-index --add --cacheinfo 100644,$(blob),$long; rename "$long" "$name"
#: index by a link, git diff
mv .git/index ../outside/index; ln -s "$(realpath ../outside/index)" .git/index; old e/x
#: folder that is a link, git grep c4n4ry
rm -r d; ln -s "$(dirname "$S")" d
#: files that are links, git grep c4n4ry
rm e/x; ln -s "$S" e/x; ln -s "$S" l; git add -N l; rm .gitignore; ln -s "$S" .gitignore
#: attributes, git diff
git config core.attributesFile "$S"
#: ignored files, git check-ignore -v c4n4ry-0f-a-secret
git config core.excludesFile "$S"; touch c4n4ry-0f-a-secret
#: ignored files, by a link, git check-ignore -v c4n4ry-0f-a-secret
rm -f .git/info/exclude; ln -s "$S" .git/info/exclude; touch c4n4ry-0f-a-secret
#: ignored files, by a link of a folder, git status --ignored
rm -rf .git/info; mkdir ../outside/info; cp "$S" ../outside/info/exclude
ln -s "$(realpath ../outside/info)" .git/info; touch c4n4ry-0f-a-secret
#: names of people, git log
git config mailmap.file "$S"
#: ignored revisions, git blame f
git config blame.ignoreRevsFile "$S"
#: ignored revisions, by a link, git blame f
ln -s "$S" revisions; git config blame.ignoreRevsFile revisions
#: order of files, git diff
git config diff.orderFile "$S"
#: included secret, git remote -v
git config include.path "$S"
#: rebase, git status
mkdir .git/rebase-merge; touch .git/rebase-merge/interactive
for name in done git-rebase-todo; do ln -s "$S" .git/rebase-merge/$name; done
for name in head-name onto; do echo x > .git/rebase-merge/$name; done
#: bisection, git status
ln -s "$S" .git/BISECT_START; touch .git/BISECT_LOG
#: remotes by links, git remote get-url x
mkdir -p .git/branches .git/remotes; ln -s "$S" .git/branches/x; ln -s "$S" .git/remotes/y
#: lock of a work tree, git worktree list --porcelain
git worktree add -q ../linked; ln -s "$S" .git/worktrees/linked/locked
#: head by a link, git log
rm .git/HEAD; ln -s "$S" .git/HEAD
#: configuration by a link, git status
git config filter.x.clean "$M"; mv .git/config ../outside/config
ln -s "$(realpath ../outside/config)" .git/config; old e/x
#: sparse checkout
git sparse-checkout set --cone --sparse-index e
#: split index
git update-index --split-index; old e/x
#: untracked cache
git config core.untrackedCache true; git update-index --untracked-cache; git status > /dev/null
#: commit graph
git commit-graph write --reachable --changed-paths; git repack -adq --write-bitmap-index
git multi-pack-index write
#: odd settings
for key in uploadpack.packObjectsHook tar.x.command difftool.x.cmd mergetool.x.cmd \
    sendemail.sendmailCmd instaweb.httpd gc.recentObjectsHook gpg.ssh.defaultKeyCommand; do
    git config $key "$M"
done
git config diff.tool x; git config column.ui always; git config color.ui always
git config core.precomposeUnicode true; git config diff.wordRegex .; git config index.threads 8
git config grep.fallbackToNoIndex true; git config grep.patternType perl
git config i18n.logOutputEncoding utf-16; git config notes.displayRef '*'
#: much at once, git diff
sub; sign; lose v1:f side^{tree}; git config remote.origin.url "ext::$M %S"; git config protocol.allow always
for key in core.fsmonitor diff.external diff.d.command diff.d.textconv core.pager core.sshCommand \
    core.askPass core.editor core.alternateRefsCommand interactive.diffFilter; do
    git config $key "$M"; git -C s config $key "$M"
done
git config merge.m.driver "$M %O %A %B"; git config log.diffMerges remerge
git config diff.submodule diff; git config status.submoduleSummary true
git config log.showSignature true; git config submodule.recurse true; git config color.ui always
git config submodule.s.ignore none; git config diff.ignoreSubmodules none; old s/t e/x
mkdir h; cp "$M" h/post-index-change; git config core.hooksPath h; git -C s config filter.x.clean "$M"
for verb in log status diff show blame grep branch tag; do git config alias.$verb "!$M"; done
