"""A browser page that has opened the link, with its errors and requests."""

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect


class Tab(NamedTuple):
    """A page of a browser with a session, and its errors and requests."""

    page: Page
    messages: list[str]
    requests: list[str]

    def in_peace(self, site: str) -> None:
        """Assert that there was no error, no dialog, and no request except to the site."""
        assert self.messages == []
        assert {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in self.requests} == {site}


def enter(browser: Browser, link: str, **options: Any) -> Tab:
    """Open a link, as from a terminal, and start a session."""
    context: BrowserContext = browser.new_context(base_url=site_of(link), **options)
    tab = Tab(context.new_page(), [], [])
    tab.page.on("console", lambda message: tab.messages.append(message.text))
    tab.page.on("pageerror", lambda error: tab.messages.append(str(error)))
    tab.page.on("dialog", lambda dialog: tab.messages.append(dialog.message))
    tab.page.on("request", lambda request: tab.requests.append(request.url))
    tab.page.goto(link)
    expect(tab.page).to_have_title("Overview - Podium")
    return tab


def site_of(link: str) -> str:
    return link.partition("/?")[0]
