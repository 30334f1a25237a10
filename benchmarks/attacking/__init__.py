"""Attacks on a service of our own, and what another tenant notices of them.

Each attack is a program of a few lines that stops by itself (`programs`), against a real service
process on this machine's loopback (`entry`: as anybody would start it, with 1,024 descriptors and
a disk that can be made to stall). What it needs to find there is prepared first (`stage`), with a
generous allowance; then the service is started anew with the limits that everybody has. Meanwhile
a `victim` trades at a modest rate on a connection of its own, and what it waits is the result,
with the memory of the service before, during and after.
"""
