"""The list of runs, the page of each, and what people may do to a run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import parse_qs, urlencode

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.coordinator import Stop, Wanted
from fedbandits.federation.requests import (
    check_not_over,
    leave_request,
    number_to_withdraw,
    request_words,
    stated,
)
from fedbandits.federation.status import ArmState, printable
from fedbandits.protocol import ArmWithdrawn
from fedbandits.run_page.live import HEADINGS
from fedbandits.run_page.tables import CLIENT_STATES, ROWS, found_clients, text
from fedbandits.web.guard import AUTHORISED, Access
from fedbandits.web.live_parts import LiveParts, Streams
from fedbandits.web.shell import served_page
from fedbandits.web.watched import Board, WatchedRun


class RunPages:
    """Answers requests about runs.

    Parameters
    ----------
    board : Board
        The runs.
    access : Access
        Who may do what.
    streams : Streams
        What counts viewers.
    """

    def __init__(self, board: Board, access: Access, streams: Streams) -> None:
        self.board, self.access, self.streams = board, access, streams

    def routes(self) -> list[BaseRoute]:
        """Return where each is."""
        return [
            Route("/", self.start),
            Route("/events", self.list_events),
            Route("/run/{key}", self.page),
            Route("/run/{key}/events", self.events),
            Route("/run/{key}/clients", self.clients),
            Route("/run/{key}/confirm", self.confirm, methods=["POST"]),
            Route("/run/{key}/do", self.do, methods=["POST"]),
        ]

    def _run(self, request: Request) -> WatchedRun:
        found = self.board.runs.get(request.path_params["key"])
        if found is None:
            raise HTTPException(404, "There is no such run.")
        return found

    async def start(self, _: Request) -> Response:
        """Answer with the list of runs; with the run, if there is only one to show."""
        if self.board.single is not None:
            return RedirectResponse(f"/run/{self.board.single.key}", 303)
        return served_page(
            title="Runs",
            byline=f"In {text(self.board.source.resolve().name)}. To plan one, open the"
            ' <a href="/lab">laboratory</a>.',
            sections=[("Runs", _part(self.board.parts, "list"))],
            notice=_live("/events", self.board.parts),
            scripts=["live.js"],
        )

    async def list_events(self, request: Request) -> Response:
        """Answer with a stream of what changes in the list."""
        return self.streams.of(self.board.parts, _version(request))

    async def events(self, request: Request) -> Response:
        """Answer with a stream of what changes on a run's page."""
        return self.streams.of(self._run(request).parts, _version(request))

    async def page(self, request: Request) -> Response:
        """Answer with the page of a run."""
        run = self._run(request)
        sections = []
        for name, heading in HEADINGS.items():
            body = _part(run.parts, name)
            if name == "clients":
                body += await self._search(request, run)
            sections.append((heading, body))
        if self.access.actions:
            sections.append(("Actions", self._actions(request, run)))
        up = "" if self.board.single is not None else '<a href="/">All runs</a> · '
        return served_page(
            title=printable(run.title),
            byline=f"{up}{_part(run.parts, 'byline', 'span')}",
            sections=sections,
            notice=_live(f"/run/{run.key}/events", run.parts) + _part(run.parts, "notice"),
            scripts=["live.js"],
        )

    async def clients(self, request: Request) -> Response:
        """Answer with a page of the table of clients, to be put where the old one is."""
        return HTMLResponse(await self._table(request, self._run(request)))

    async def _search(self, request: Request, run: WatchedRun) -> str:
        """Return the table of clients below what it is searched with."""
        asked, state = request.query_params.get("q", ""), request.query_params.get("state", "")
        options = "".join(
            f'<option value="{one}"{" selected" if one == state else ""}>{one or "all"}</option>'
            for one in ("", *CLIENT_STATES)
        )
        return (
            '<form class="search" role="search" method="get" data-search>'
            f'<label>Name contains <input name="q" type="search" value="{escape(asked)}"'
            ' maxlength="80" autocomplete="off" spellcheck="false"></label>'
            f'<label>State <select name="state">{options}</select></label>'
            "<noscript><button>Search</button></noscript></form>\n"
            f'<div id="clients" aria-live="polite" data-from="/run/{run.key}/clients">'
            f"{await self._table(request, run)}</div>"
        )

    async def _table(self, request: Request, run: WatchedRun) -> str:
        if run.live is None:
            return ""
        asked = request.query_params
        words, state = asked.get("q", "")[:80], asked.get("state", "")
        page = asked.get("page", "1")
        at = min(max(int(page), 1), 10**6) if page.isdecimal() and len(page) < 8 else 1
        status = run.live.status
        shown, found = await to_thread.run_sync(found_clients, status, words, state, at)
        pages = max(1, -(-found // ROWS))
        first = min(found, (at - 1) * ROWS + 1)
        said = f"{first:,} to {min(found, at * ROWS):,} of {found:,}" if found else "None found"
        links = [
            f'<a href="?{escape(urlencode({"q": words, "state": state, "page": to}))}#clients"'
            f' data-page="{to}">{name}</a>'
            for name, to, there in (("Earlier", at - 1, at > 1), ("Later", at + 1, at < pages))
            if there
        ]
        return f'{shown}\n<p class="pages">{said}{"".join(f" {one}" for one in links)}</p>'

    def _actions(self, request: Request, run: WatchedRun) -> str:
        if not request.scope[AUTHORISED]:
            return (
                "<p>Those who know the token can withdraw options and stop the run.</p>"
                '<form method="get" class="search"><label>Token <input name="token"'
                ' type="password" autocomplete="off" required></label><button>Enter</button></form>'
            )
        status = None if run.live is None else run.live.status
        if status is None or status.finished:
            return "<p>There is nothing to be done: no run goes on.</p>"
        options = "".join(
            f'<option value="{number}">{text(arm.name)}</option>'
            for number, arm in enumerate(status.arms)
            if arm.state is not ArmState.WITHDRAWN
        )
        choose = f'<label>Option <select name="arm" required>{options}</select></label>'
        return "\n".join(
            [
                "<p>This cannot be undone. The log and all reports show the reason.</p>",
                _form(run, "confirm", "withdraw", f"{choose}{_REASON}", "Withdraw an option …"),
                _form(run, "confirm", "stop", _REASON, "Stop the run …"),
            ]
        )

    async def confirm(self, request: Request) -> Response:
        """Ask whether somebody means it."""
        run, wanted, said = await self._wanted(request)
        what = request_words(wanted, () if run.live is None else run.live.run.trial.arms)
        fields = "".join(
            f'<input type="hidden" name="{key}" value="{escape(said[key])}">'
            for key in ("arm", "reason")
            if key in said
        )
        body = (
            f'<p class="verdict">You are about to ask the server <b>{text(what)}</b>.</p>'
            "<p>This cannot be undone. All clients are told, and the log and all reports show the"
            f" reason.</p>\n{_form(run, 'do', said['what'], fields, 'Yes, do it')}\n"
            f'<p><a href="/run/{run.key}">No, go back</a></p>'
        )
        return served_page(
            title=printable(run.title), byline="", sections=[("Are you sure?", body)]
        )

    async def do(self, request: Request) -> Response:
        """Leave a note for the server, as the commands withdraw and stop do."""
        run, wanted, _ = await self._wanted(request)
        try:
            await to_thread.run_sync(leave_request, run.path, wanted)
        except FedbanditsError as error:
            raise HTTPException(500, str(error)) from None
        return RedirectResponse(f"/run/{run.key}", 303)

    async def _wanted(self, request: Request) -> tuple[WatchedRun, Wanted, dict[str, str]]:
        """Return what somebody wants of a run, or refuse it."""
        run = self._run(request)
        if not self.access.actions:
            raise HTTPException(403, "Nothing can be done from here: see --allow-actions.")
        if not request.scope[AUTHORISED]:
            raise HTTPException(401, "Only those who know the token can do that.")
        if run.live is None:
            raise HTTPException(409, "The run has not begun yet.")
        body = (await request.body()).decode(errors="replace")
        try:
            said = {key: values[-1] for key, values in parse_qs(body, max_num_fields=8).items()}
        except ValueError:
            raise HTTPException(400, "The form has more fields than ours.") from None
        if said.get("what", "withdraw") not in ("stop", "withdraw"):
            raise HTTPException(400, "Options can be withdrawn, and runs stopped; nothing else.")
        server = run.live.run.server
        try:
            reason = stated(said.get("reason", "")[:_LONGEST])
            if said.get("what") == "stop":
                check_not_over(server)
                return run, Stop(reason=reason), said
            number = number_to_withdraw(server, _chosen(server.arms, said.get("arm", "")))
            return run, ArmWithdrawn(arm=number, reason=reason), {**said, "what": "withdraw"}
        except InputError as error:
            raise HTTPException(400, f"Nothing was done: {error.problem}.") from None


def _chosen(arms: Sequence[str], said: str) -> str:
    """Return the option of a number: names may be anything, and come back as something else."""
    for number, arm in enumerate(arms):
        if said == str(number):
            return arm
    raise InputError("ARM", "choose one of the options")


_LONGEST = 1_000
_REASON = (
    f'<label>Reason <input name="reason" required maxlength="{_LONGEST}"'
    ' autocomplete="off"></label>'
)


def _form(run: WatchedRun, to: str, what: str, fields: str, button: str) -> str:
    return (
        f'<form class="search" method="post" action="/run/{run.key}/{to}">'
        f'<input type="hidden" name="what" value="{what}">{fields}<button>{button}</button></form>'
    )


def _version(request: Request) -> str:
    return request.headers.get("last-event-id") or request.query_params.get("have", "")


def _part(parts: LiveParts, name: str, tag: str = "div") -> str:
    """Return a part, marked so that a script finds it."""
    polite = ' aria-live="polite"' if name in ("verdict", "notice") else ""
    return f'<{tag} data-part="{name}"{polite}>{parts.shown.get(name, "")}</{tag}>'


def _live(address: str, parts: LiveParts) -> str:
    """Return what says whether the page is up to date."""
    return (
        f'<p id="live" role="status" data-events="{address}" data-have="{parts.version}">'
        "This page is as of now; load it again for news.</p>\n"
    )
