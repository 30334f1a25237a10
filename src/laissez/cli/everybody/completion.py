"""Completion for shells: click knows how, this prints it."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from laissez.cli.terminal.documents import CompletionScript
from laissez.cli.terminal.output import json_option, say_json


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes words.

    With it, your shell knows the commands and their options, and asks the service for the scopes,
    orders and holdings that you may name.

    \b
    Where to put it:
      bash   eval "$(laissez completion bash)"  in ~/.bashrc
      zsh    eval "$(laissez completion zsh)"   in ~/.zshrc
      fish   laissez completion fish > ~/.config/fish/completions/laissez.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "laissez", "_LAISSEZ_COMPLETE").source()
    if as_json:
        say_json(CompletionScript(shell, script))
    else:
        click.echo(script)
