"""A chatbot that remembers: run it again with the same name to continue the conversation."""

import sys

from greenroom import Agent, FileStore

agent = Agent("offline:", instructions="You are a friendly librarian.")
store, name = FileStore("conversations"), sys.argv[1]

for line in sys.stdin:
    print(agent.run_sync(line.strip(), session=name, store=store).output)
