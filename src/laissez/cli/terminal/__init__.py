"""What every command needs: how it is understood, how it speaks, how it ends.

Options and amounts as people type them, tables and JSON, exit codes and sentences, the connection
to a service. It may import what the command line may; it knows no command.
"""
