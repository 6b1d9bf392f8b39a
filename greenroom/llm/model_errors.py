"""The errors of models: why there is no usable reply, and the part of it that had arrived.

`greenroom.core.errors` draws the whole tree.
"""

from typing import TYPE_CHECKING

from greenroom.core import ConfigurationError, GreenroomError

if TYPE_CHECKING:
    from greenroom.core import Message


class ModelError(GreenroomError):
    """The model gave no usable reply; the subclass says why.

    Attributes:
        provider: the provider's name, such as "anthropic".
        status: the HTTP status, or None without a response.
        code: the provider's own name for the error.
        request_id: the provider's id of the request, for its support.
        retry_after: seconds that the provider asks to wait, only from an error response.
        param: the part of the request that the provider names, such as "messages[3].content[1]".
        partial: the part of the reply that had arrived, or None.
    """

    remedy = "try again, or another model"

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.param = ""
        self.partial: Message | None = None


class ModelAuthenticationError(ModelError):
    """The key is missing or wrong."""

    remedy = "check the key"


class ModelPermissionError(ModelAuthenticationError):
    """The key is valid, but may not use this model or feature."""

    remedy = "check with the provider what the key may use"


class ModelRateLimitError(ModelError):
    """Too many requests or tokens for this key at the moment."""

    retryable = True
    remedy = "wait, or check the plan and its limits with the provider"


class ModelQuotaError(ModelRateLimitError):
    """The quota or credit of this key is spent; waiting does not help."""

    retryable = False
    remedy = "the quota is spent: check the plan and the billing with the provider"


class ModelOverloadedError(ModelError):
    """The provider is overloaded or broken; the same request may work later."""

    retryable = True
    remedy = "try again later"


class ModelContextTooLongError(ModelError):
    """The conversation is longer than the model's context window."""

    remedy = "start a new session, or send less"


class ModelBadRequestError(ModelError):
    """The provider refused the request as it is."""

    remedy = "the request must be changed; sending it again will not help"


class ModelNotFoundError(ModelBadRequestError):
    """The provider has no such model, or there is no such API at this address."""

    remedy = "check the model's name and the base URL"


class ModelContentFilterError(ModelBadRequestError):
    """A content filter of the provider refused the request, or cut off the reply."""

    remedy = "change the request; the provider says what its filter refuses"


class ModelTimeoutError(ModelError):
    """The model took too long; the subclass says for what."""

    retryable = True
    remedy = "try again"


class ModelConnectTimeoutError(ModelTimeoutError):
    """No connection to the provider within the time-out."""

    remedy = "check the network and the proxy settings, or try again"


class ModelFirstEventTimeoutError(ModelTimeoutError):
    """The reply did not begin within the time-out."""

    remedy = "try again, or allow more time with ModelTimeouts(first_event=…)"


class ModelIdleTimeoutError(ModelTimeoutError):
    """The reply began, and nothing more came within the time-out."""

    remedy = "try again, or allow more time with ModelTimeouts(between_events=…)"


class ModelRequestTimeoutError(ModelTimeoutError):
    """The reply was not complete within the time-out for the whole request."""

    remedy = "ask for less, or allow more time with ModelTimeouts(request=…)"


class ModelConnectionError(ModelError):
    """The provider can't be reached at all."""

    retryable = True
    remedy = "check the network, the proxy settings and the base URL"


class ModelStreamError(ModelError):
    """The stream broke off or became unreadable before the reply was complete."""

    retryable = True
    remedy = "try again"


class ModelOutputError(ModelError):
    """The model was asked for a value of a type, and none of its attempts fits.

    Attributes:
        errors: what is wrong with the last reply, one line each.
    """

    remedy = "simplify the type, or say in the prompt what is expected"

    def __init__(
        self, message: str, *, errors: tuple[str, ...] = (), provider: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, provider=provider, hint=hint)
        self.errors = errors


class ModelCallForbiddenError(ConfigurationError):
    """A request would have gone to a real model, which `GREENROOM_FORBID_MODEL_CALLS` forbids.

    Nothing was sent.

    Attributes:
        provider: the provider's name, such as "anthropic".
        host: the host that would have been asked.
    """

    remedy = "use a model of greenroom.testing or a cassette, or unset the variable"

    def __init__(self, message: str, *, provider: str = "", host: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.host = host
