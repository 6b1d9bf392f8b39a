"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.fs import durable as durable
from greenroom.fs.durable import (
    FolderLockedError as FolderLockedError,
    check_lock as check_lock,
    is_alive as is_alive,
    is_locked as is_locked,
    lock as lock,
    lock_as as lock_as,
    unlock as unlock,
)
from greenroom.fs.loop_writes import LoopWrites as LoopWrites
from greenroom.fs.name_patterns import (
    NamePattern as NamePattern,
    expand_braces as expand_braces,
    find_longest_text as find_longest_text,
    fold as fold,
    fold_names as fold_names,
    fold_path as fold_path,
    match_names as match_names,
    may_go_on as may_go_on,
    read_names as read_names,
    read_pattern as read_pattern,
    split_path as split_path,
)
from greenroom.fs.real_file import (
    NotRegularError as NotRegularError,
    open_parent as open_parent,
    open_regular as open_regular,
    open_regular_in as open_regular_in,
    read_beginning as read_beginning,
    replace_file as replace_file,
    replace_in as replace_in,
    sync_open_folder as sync_open_folder,
    write_new as write_new,
)
from greenroom.fs.text_encoding import (
    MARKS as MARKS,
    decode_text as decode_text,
    find_encoding as find_encoding,
    find_mark as find_mark,
    is_binary as is_binary,
)
