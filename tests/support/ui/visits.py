"""A browser that is let in by the link, and everything that goes wrong or out meanwhile."""

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect


class Tab(NamedTuple):
    """A page of a browser that was let in, and everything that went wrong or out."""

    page: Page
    messages: list[str]
    requests: list[str]

    def in_peace(self, site: str) -> None:
        """Assert that there was no error, no dialog, and no request except to the site."""
        assert self.messages == []
        assert {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in self.requests} == {site}


def enter(browser: Browser, link: str, **options: Any) -> Tab:
    """Open a link, as from a terminal, and be let in."""
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
