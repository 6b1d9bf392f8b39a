from greenroom.net.client import HttpClient as HttpClient
