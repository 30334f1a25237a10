"""REST: one request, one answer, for people, scripts and whatever speaks HTTP.

Every route stands for one message of the model. Its path, query and body are the message's fields
under their written names; the message goes to the reception like any other, and what comes back
is the answer's JSON or a problem. So this room has one table of routes, and everything else
follows from it: the handlers, what a request must look like, and the OpenAPI document.
"""

from laissez.service.rest.app import build_app

__all__ = ["build_app"]
