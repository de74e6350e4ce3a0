//! The dashboard as people have it: in a real browser, by keyboard, by screen reader, enlarged, without scripts, and while things change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use browser::{Browser, ENTER};

use super::acting::{acted_on, reverted};
use super::server::Dashboard;
use super::{PAGES, TOKEN};
use crate::approvals::asked;
use crate::support::Fleet;

/// The longest that an open page may lag behind a commit on a machine that does much else. Issue 36 asks for a second; what it was is printed.
const SOON: Duration = Duration::from_secs(60);

fn url(dashboard: &Dashboard, path: &str) -> String {
    format!("http://localhost:{}{path}", dashboard.address.port())
}

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dashboard-{name}.png"))
}

#[test]
fn a_stage_is_approved_by_keyboard_alone() {
    let Some(browser) = Browser::start() else { return };
    let fleet = asked();
    let head = fleet.head("deploy");
    let dashboard = acted_on(&fleet);
    browser.open(&url(&dashboard, "/"));
    browser.tab_to("input[name=token]");
    browser.press(&format!("{TOKEN}{ENTER}"));
    browser.until("return location.pathname === '/'");
    browser.tab_to("a.skip");
    browser.press(ENTER);
    browser.until("return document.activeElement.id === 'main'");
    browser.tab_to("#cluster-mgmt");
    browser.press(ENTER);
    browser.until("return location.pathname === '/clusters/mgmt'");
    browser.tab_to("a[href='/clusters/mgmt/actions']");
    browser.press(ENTER);
    browser.until("return document.querySelector('#do-approve') !== null");
    browser.tab_to("#do-approve");
    browser.press(ENTER);
    browser.until("return document.querySelector('h1').innerText === 'mgmt: done'");
    assert!(browser.text().contains("stage cert-manager is merged"), "{}", browser.text());
    assert_ne!(fleet.head("deploy"), head);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_reverted_stage_is_retried_by_a_click() {
    let Some(browser) = Browser::start() else { return };
    let fleet = reverted();
    let head = fleet.head("deploy");
    let dashboard = acted_on(&fleet);
    browser.open(&url(&dashboard, "/"));
    browser.tab_to("input[name=token]");
    browser.press(&format!("{TOKEN}{ENTER}"));
    browser.until("return location.pathname === '/'");
    browser.open(&url(&dashboard, "/clusters/mgmt/actions"));
    browser.until("return document.querySelector('#do-retry') !== null");
    browser.script("document.querySelector('#do-retry').click()");
    browser.until("return document.querySelector('h1').innerText === 'mgmt: done'");
    assert!(browser.text().contains("cert-manager"), "{}", browser.text());
    assert_ne!(fleet.head("deploy"), head);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn each_page_has_names_for_all_that_a_screen_reader_tells() {
    let Some(browser) = Browser::start() else { return };
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    for path in PAGES {
        browser.open(&url(&dashboard, path));
        let nodes = browser.accessible();
        let of = |role: &str| -> Vec<&str> {
            nodes.iter().filter(|(own, _)| own == role).map(|(_, name)| name.as_str()).collect()
        };
        for role in ["link", "button", "textbox", "searchbox", "combobox", "image", "navigation", "columnheader"] {
            assert!(of(role).iter().all(|name| !name.is_empty()), "{path}: a {role} has no name: {nodes:?}");
        }
        assert_eq!(of("main").len(), 1, "{path}");
        let headings = browser.script("return document.querySelectorAll('h1').length");
        assert_eq!(headings, 1, "{path}");
        let levels = "const all = [...document.querySelectorAll('h1,h2,h3,h4')].map(it => +it.tagName[1]); \
                      return all.every((level, at) => at === 0 ? level === 1 : level <= all[at - 1] + 1)";
        assert_eq!(browser.script(levels), true, "{path}: headings leave a level out");
        let twice = "const ids = [...document.querySelectorAll('[id]')].map(it => it.id); \
                     return ids.length === new Set(ids).size && document.documentElement.lang === 'en'";
        assert_eq!(browser.script(twice), true, "{path}: an id stands twice, or there is no language");
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{path}");
    }
}

/// The contrast of each text with what is behind it, as WCAG 2 computes it; the lowest of them.
const CONTRAST: &str = "
    const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => { const of = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
      return 0.2126 * of(r) + 0.7152 * of(g) + 0.0722 * of(b); };
    let lowest = 21;
    for (const node of document.querySelectorAll('body *')) {
      if (![...node.childNodes].some(it => it.nodeType === 3 && it.data.trim()) || !node.checkVisibility()) continue;
      let behind = node, paper = [255, 255, 255];
      while (behind) { const own = parts(getComputedStyle(behind).backgroundColor);
        if (own.length === 3 || own[3] > 0) { paper = own; break; } behind = behind.parentElement; }
      const style = getComputedStyle(node);
      const ink = parts(node instanceof SVGElement ? style.fill : style.color);
      const [a, b] = [light(ink), light(paper)].sort((a, b) => b - a);
      lowest = Math.min(lowest, (a + 0.05) / (b + 0.05));
    }
    return lowest;";

#[test]
fn text_stands_out_from_its_page_by_day_and_by_night() {
    let Some(browser) = Browser::start() else { return };
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        for path in ["/", "/clusters/mgmt", "/clusters/mgmt/plan", "/clusters/team-a/diff"] {
            browser.open(&url(&dashboard, path));
            let lowest = browser.script(CONTRAST).as_f64().unwrap();
            assert!(lowest >= 4.5, "{path}, {scheme}: {lowest}");
        }
    }
}

#[test]
fn pages_that_are_enlarged_twice_are_read_without_scrolling_sideways() {
    let Some(browser) = Browser::start() else { return };
    let fleet = Fleet::pending();
    let dashboard = Dashboard::of(&fleet, "web", &[]);
    browser.zoomed(1280, 2);
    for path in PAGES {
        browser.open(&url(&dashboard, path));
        let page = "const page = document.documentElement; return page.scrollWidth <= page.clientWidth";
        assert_eq!(browser.script(page), true, "{path}");
    }
}

#[test]
fn pages_and_forms_work_without_a_script() {
    let Some(browser) = Browser::start() else { return };
    let fleet = asked();
    let dashboard = acted_on(&fleet);
    browser.without_scripts(true);
    browser.open(&url(&dashboard, "/login"));
    browser.tab_to("input[name=token]");
    browser.press(&format!("{TOKEN}{ENTER}"));
    browser.until("return location.pathname === '/'");
    for (path, words) in [
        ("/", "cert-manager"),
        ("/clusters/mgmt", "Why"),
        ("/clusters/mgmt/plan", "cert-manager"),
        ("/approvals", "Approvals"),
    ] {
        browser.open(&url(&dashboard, path));
        assert!(browser.text().contains(words), "{path}: {}", browser.text());
    }
    browser.open(&url(&dashboard, "/clusters/mgmt/actions"));
    browser.tab_to("#why-reject");
    browser.press("not today");
    browser.press(ENTER);
    browser.until("return document.querySelector('h1').innerText === 'mgmt: done'");
    assert!(browser.text().contains("stage cert-manager is rejected"), "{}", browser.text());
}

#[test]
fn an_open_page_shows_a_commit_soon_and_keeps_what_is_open() {
    let Some(browser) = Browser::start() else { return };
    let fleet = Fleet::settled();
    let dashboard = Dashboard::of(&fleet, "web", &["--interval", "3600"]);
    browser.open(&url(&dashboard, "/"));
    browser.until("return document.getElementById('live').innerText === 'live'");
    browser.script("document.getElementById('cluster-mgmt').focus()");
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    let took = browser.until("return document.querySelector('main').innerText.includes('cert-manager')");
    println!("an open page showed a commit after {} ms", took.as_millis());
    assert!(took < SOON, "{took:?}");
    assert_eq!(browser.script("return document.activeElement.id"), "cluster-mgmt", "the focus stays");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// `UPDATE_FIXTURES=1` puts the fleet's picture into the guides.
#[test]
fn each_page_has_its_picture() {
    let Some(browser) = Browser::start() else { return };
    let fleet = asked();
    let dashboard = acted_on(&fleet);
    browser.open(&url(&dashboard, "/login"));
    browser.tab_to("input[name=token]");
    browser.press(&format!("{TOKEN}{ENTER}"));
    browser.until("return location.pathname === '/'");
    browser.zoomed(1120, 1);
    for path in PAGES {
        let path = path.replace("team-a", "mgmt");
        browser.open(&url(&dashboard, &path));
        let picture = picture(path.trim_matches('/').replace('/', "-").as_str());
        let bytes = browser.picture();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5_000, "{path}: {} bytes", bytes.len());
        std::fs::write(&picture, &bytes).unwrap();
        println!("{path}: {}", picture.display());
        if path == "/" && std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dashboard.png"), &bytes).unwrap();
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
