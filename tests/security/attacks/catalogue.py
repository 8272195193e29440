"""The attacks by name."""

from collections.abc import Awaitable, Callable
from typing import Final

from tests.security.attacks import (
    connections,
    outside_names,
    places,
    programs,
    requests,
    starts,
    trusted_names,
)
from tests.security.attacks.scene import Outcome, Scene

Attack = Callable[[Scene], Awaitable[Outcome]]

# What holds places or the processor comes last.
_ALL: Final = (
    requests.reads_without_a_token,
    requests.metrics_without_a_token,
    requests.authoritative_lookup_past_a_policy,
    requests.pattern_of_many_steps,
    requests.change_by_a_page_of_another_site,
    requests.read_by_a_rebound_name,
    requests.software_in_each_response,
    requests.lookup_by_a_page_of_another_site,
    requests.line_forged_in_the_log,
    requests.escape_in_a_terminal,
    starts.restriction_without_effect,
    starts.tokens_in_the_clear,
    starts.replication_port_without_proof,
    starts.secrets_that_others_write,
    starts.secret_of_two_roles,
    starts.history_that_others_read,
    trusted_names.authorities_that_others_write,
    trusted_names.secret_that_others_replace,
    trusted_names.token_for_the_other_localhost,
    trusted_names.token_of_a_prometheus_in_the_clear,
    trusted_names.credentials_in_policies,
    trusted_names.move_by_the_admin_of_a_tenant,
    outside_names.option_of_a_restart_command,
    outside_names.substitution_by_completion,
    outside_names.text_that_takes_minutes,
    programs.request_again_after_a_restart,
    programs.support_bundle_in_the_open,
    places.rate_by_a_header,
    places.silent_handshakes,
    places.answers_that_nobody_reads,
    places.refused_streams,
    places.half_forms,
    connections.revoked_token,
    connections.silent_sockets,
    connections.compressed_bodies,
    connections.half_requests,
    requests.wrong_tokens_without_a_trace,
)
ATTACKS: Final[dict[str, Attack]] = {attack.__name__.replace("_", "-"): attack for attack in _ALL}
