"""How much the service takes: a real server, real connections, real disk syncs, on one machine.

`service` starts the server and the load as processes of their own and adds up what they saw;
`load` is what the clients do. This room talks to the server as any client does, and reads the
journal afterwards to see that nothing acknowledged is missing.
"""
