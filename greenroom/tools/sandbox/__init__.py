"""Sandboxes: what the operating system holds commands to, whatever the rules have allowed.

`policy` says what is asked for; `examination` what of it holds on this machine, found by running
`trial` under it; `confinement` holds one command to it. By what means: `bubblewrap`, `landlock` and
`seatbelt` say what may be reached, `seccomp` which system calls, `cgroup` how much; `confine` is the
small program that puts it into force and becomes the command; `user` says who runs that where we
are root, and `become` is who becomes him first.
"""
