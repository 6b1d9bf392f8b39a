from greenroom.net.body import Body as Body, ChunkIterator as ChunkIterator
from greenroom.net.client import HttpResponse as HttpResponse, HttpTransport as HttpTransport
from greenroom.net.connection import Timeouts as Timeouts
from greenroom.net.errors import shows_distrust as shows_distrust
from greenroom.net.pool import HttpStatistics as HttpStatistics
from greenroom.net.tls import server_context as server_context
from greenroom.net.urls import (
    check_url as check_url,
    is_public as is_public,
    is_same_host as is_same_host,
    port_of as port_of,
    proxy_for as proxy_for,
    public_address as public_address,
    redirect_target as redirect_target,
)
