"""What calls do to the files of a workspace: seen, kept, and undone. It knows of no session.

`file_state` reads how one path is, `survey` how all of them are, `packs` keeps contents, `window` is
the time during which calls run, `recorder` opens and closes windows, `put_back` undoes one change.
"""
