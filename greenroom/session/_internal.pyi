from greenroom.session.artifacts import (
    ARTIFACT as ARTIFACT,
    MOST_VERSIONS as MOST_VERSIONS,
    Artifact as Artifact,
    begin_version as begin_version,
)
from greenroom.session.branches import Branch as Branch, checkpoints_after as checkpoints_after
from greenroom.session.conversation import (
    Conversation as Conversation,
    SessionStatistics as SessionStatistics,
)
from greenroom.session.description import (
    FORKED_FROM as FORKED_FROM,
    Origin as Origin,
    in_utc as in_utc,
)
from greenroom.session.entries import (
    LONGEST_RECORD as LONGEST_RECORD,
    MessageEntry as MessageEntry,
    OpenQuestion as OpenQuestion,
    decode_entries as decode_entries,
)
from greenroom.session.file_store import check_store as check_store, default_store as default_store
from greenroom.session.files import (
    CHECKPOINT_FILES as CHECKPOINT_FILES,
    LONGEST_FILE as LONGEST_FILE,
    KeepsFiles as KeepsFiles,
)
from greenroom.session.folder_names import folder_name as folder_name
from greenroom.session.history import (
    History as History,
    encode_line as encode_line,
    read_backwards as read_backwards,
    read_page as read_page,
)
from greenroom.session.holders import begin_epoch as begin_epoch, holder_of as holder_of
from greenroom.session.past_sessions import (
    SearchHit as SearchHit,
    SessionSearch as SessionSearch,
    descendants as descendants,
    read_last as read_last,
    read_paid_calls as read_paid_calls,
)
from greenroom.session.postgres_open import lock_of as lock_of, open_server as open_server
from greenroom.session.postgres_server import Connection as Connection, transaction as transaction
from greenroom.session.postgres_store import ensure_presence as ensure_presence
from greenroom.session.postgres_tables import free_sessions as free_sessions
from greenroom.session.store import StoreOnDisk as StoreOnDisk
from greenroom.session.store_errors import (
    fenced_error as fenced_error,
    locked_error as locked_error,
)
from greenroom.session.transcript import (
    WENT_ON as WENT_ON,
    answer_calls as answer_calls,
    is_stand_in as is_stand_in,
    may_have_run as may_have_run,
)
