"""A program that keeps two hosts on Ray, until it is ended; its argument is the SCHEMA."""

import sys

import trio

from greenroom.distributed import Cluster, RayHosts

TYPES = "tests.distributed.kinds:TYPES"


async def main(schema):
    async with (
        Cluster(schema=schema, patience=3.0) as cluster,
        RayHosts(cluster, TYPES, hosts=2, resources={"CPU": 0.5}),
    ):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
