from greenroom.agents.agent_result import RunReport as RunReport
from greenroom.agents.agent_run import (
    GO_ON as GO_ON,
    AgentRun as AgentRun,
    Answers as Answers,
    Approve as Approve,
    RunBlock as RunBlock,
    RunOptions as RunOptions,
    open_run as open_run,
)
from greenroom.agents.bound_agent import to_json_value as to_json_value
from greenroom.agents.callers import (
    check_depth as check_depth,
    continue_runs as continue_runs,
    find_caller as find_caller,
    find_cycle as find_cycle,
    pass_permissions as pass_permissions,
    track_turn as track_turn,
)
from greenroom.agents.chunk_streams import StreamEventType as StreamEventType
from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT
from greenroom.agents.configuration import (
    Toolbox as Toolbox,
    list_tools as list_tools,
    read_capabilities as read_capabilities,
)
from greenroom.agents.cut_off import (
    CUT_OFF as CUT_OFF,
    ask_in_doubt as ask_in_doubt,
    copy_session as copy_session,
    find_lives as find_lives,
    is_answered as is_answered,
    last_reply as last_reply,
    mend_calls as mend_calls,
    read_stated_result as read_stated_result,
)
from greenroom.agents.errors import (
    GuardError as GuardError,
    HandoffLimitError as HandoffLimitError,
    NoProgressError as NoProgressError,
)
from greenroom.agents.file_restore import RestorePlan as RestorePlan, RestoreReport as RestoreReport
from greenroom.agents.handoff import MAX_SWITCHES as MAX_SWITCHES, Team as Team
from greenroom.agents.helper import Helper as Helper
from greenroom.agents.plan_mode import (
    PLAN_OPTIONS as PLAN_OPTIONS,
    PLAN_PROMPT as PLAN_PROMPT,
    SubmitPlan as SubmitPlan,
)
from greenroom.agents.project import (
    ProjectText as ProjectText,
    git_branch as git_branch,
    read_notes as read_notes,
    read_project_text as read_project_text,
    read_user_text as read_user_text,
    user_folder as user_folder,
)
from greenroom.agents.questions import Decide as Decide, as_answer as as_answer, attend as attend
from greenroom.agents.runnable import run_in_loop as run_in_loop
from greenroom.agents.session_queue import OnBusy as OnBusy
from greenroom.agents.skills import (
    FrontMatter as FrontMatter,
    Skill as Skill,
    parse_front_matter as parse_front_matter,
)
from greenroom.agents.steps import without_note as without_note
from greenroom.agents.trust import (
    drop_rule as drop_rule,
    is_trusted as is_trusted,
    keep_rules as keep_rules,
    rules_digest as rules_digest,
    trust_rules as trust_rules,
    user_rules_path as user_rules_path,
)
