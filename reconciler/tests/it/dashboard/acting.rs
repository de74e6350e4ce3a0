//! What people do on the dashboard: the commits of the command line, and nothing that somebody else makes their browser send.

use serde_json::Value;

use super::TOKEN;
use super::server::Dashboard;
use crate::approvals::asked;
use crate::support::{Fleet, stepgate};

const PERSON: &str = "A Person <person@example.com>";

/// A controller whose dashboard is used by one person.
pub fn acted_on(fleet: &Fleet) -> Dashboard {
    with(fleet, "run", &["--listen", "off", "--health-address", "off", "--web-token-person", PERSON])
}

fn with(fleet: &Fleet, verb: &str, arguments: &[&str]) -> Dashboard {
    let file = fleet.folder().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let token = ["--web-token-file", file.to_str().unwrap()];
    let dashboard = Dashboard::start(fleet, verb, &[&token[..], arguments].concat());
    dashboard.shows(&bearer());
    dashboard
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

/// A page of a session.
fn page(dashboard: &Dashboard, session: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nCookie: {session}\r\n\r\n");
    let answer = dashboard.ask(&request);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// What a program is told of the actions of the management cluster.
fn offers(dashboard: &Dashboard) -> Value {
    dashboard.ask(&format!("GET /clusters/mgmt/actions.json HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer())).json()
}

/// The plan that an action would be about now.
fn plan(dashboard: &Dashboard, verb: &str) -> String {
    let offers = offers(dashboard);
    let offer = offers["offers"].as_array().unwrap().iter().find(|offer| offer["verb"] == verb).unwrap();
    offer["offered"]["plan"].as_str().unwrap_or_else(|| panic!("{offers}")).to_owned()
}

/// The fields of a form of a page, as a browser sends them.
pub fn fields(page: &str, verb: &str) -> String {
    let form =
        page.split(&format!("action=\"/clusters/mgmt/actions/{verb}\"")).nth(1).unwrap_or_else(|| panic!("{page}"));
    let form = form.split("</form>").next().unwrap();
    let hidden = regex::Regex::new(r#"type="hidden" name="([^"]*)" value="([^"]*)""#).unwrap();
    let fields = hidden.captures_iter(form).map(|found| format!("{}={}", &found[1], &found[2]));
    fields.collect::<Vec<_>>().join("&")
}

#[test]
fn whoever_approves_on_the_page_makes_the_commit_of_the_command_line() {
    let fleet = asked();
    let dashboard = acted_on(&fleet);
    let session = dashboard.log_in(TOKEN);
    let shown = page(&dashboard, &session, "/clusters/mgmt/actions");
    assert!(shown.contains("You act as A Person") && shown.contains("stage cert-manager is merged"), "{shown}");
    let form = fields(&shown, "approve");
    let headers = format!(
        "Accept: text/html\r\nCookie: {session}\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"
    );
    let answer = dashboard.post("/clusters/mgmt/actions/approve", &headers, &form);
    assert!(answer.status == 200 && answer.body.contains("stage cert-manager is merged"), "{}", answer.body);
    let merge = fleet.repository.find_commit(fleet.head("deploy").unwrap()).unwrap();
    let message = merge.message().unwrap().to_owned();
    assert_eq!((merge.parent_count(), merge.author().email().unwrap()), (2, "person@example.com"));
    for wanted in [&format!("Stepgate-Approved-By: {PERSON}"), "Stepgate-Said-On: dashboard, by the operator's token"] {
        assert!(message.contains(wanted), "{message}");
    }
    let told = dashboard.told("WebAction");
    assert!(told.contains("person@example.com") && told.contains("approve"), "{told}");
    // Twice is once.
    let head = fleet.head("deploy");
    let again = dashboard.post("/clusters/mgmt/actions/approve", &headers, &form);
    assert!(again.status == 422 && again.body.contains("nothing is proposed"), "{} {}", again.status, again.body);
    assert_eq!(fleet.head("deploy"), head);
    let run = fleet.demo();
    assert_eq!(run.json()["complete"], true, "{}", run.stderr);
}

#[test]
fn whoever_rejects_on_the_page_holds_the_cluster_with_the_reason() {
    let fleet = asked();
    let dashboard = acted_on(&fleet);
    let plan = plan(&dashboard, "reject");
    let act = |form: &str| dashboard.post("/clusters/mgmt/actions/reject", &bearer(), form);
    assert_eq!(act(&format!("plan={plan}")).status, 400, "a reason is needed");
    let answer = act(&format!("plan={plan}&reason=change+freeze%0AStepgate-Approved-By%3A+Mallory"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let run = fleet.demo();
    let report = run.json();
    let mgmt = &report["clusters"][0];
    let message = mgmt["message"].as_str().unwrap();
    assert_eq!(mgmt["state"], "held", "{report}");
    assert!(message.contains("rejected by A Person") && message.contains("change freeze"), "{message}");
}

#[test]
fn a_cluster_goes_back_and_on_again_by_the_page() {
    let fleet = Fleet::settled();
    fleet.replace("overlays/cert-manager/kustomization.yaml", "system-cluster-critical", "system-node-critical");
    assert_eq!(fleet.demo().json()["complete"], true);
    let dashboard = acted_on(&fleet);
    let act = |form: &str| dashboard.post("/clusters/mgmt/actions/rollback", &bearer(), form);
    let answer = act(&format!("plan={}&reason=too+slow", plan(&dashboard, "rollback")));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let ledger = fleet.text("deploy", "clusters/mgmt/rollout.yaml");
    assert!(ledger.contains(&format!("by: {PERSON}")) && ledger.contains("reason: too slow"), "{ledger}");
    let offers = offers(&dashboard);
    let offer = offers["offers"].as_array().unwrap().iter().find(|offer| offer["verb"] == "rollback").unwrap();
    assert_eq!(offer["offered"]["ends"], true, "{offer}");
    let answer = act(&format!("plan={}&ends=true", offer["offered"]["plan"].as_str().unwrap()));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let ledger = fleet.text("deploy", "clusters/mgmt/rollout.yaml");
    assert!(!ledger.contains("reason: too slow"), "{ledger}");
}

/// A fleet whose management cluster is held: a stage was taken back, and its policy lets nobody but people try it again.
pub fn reverted() -> Fleet {
    let fleet = Fleet::pending();
    fleet.replace("stepgate.yaml", "\nstages:\n", "\nstages:\n  cert-manager: {onFailure: revert}\n");
    let run = stepgate(&["demo", "--dir", fleet.folder().to_str().unwrap(), "--break", "cert-manager", "-o", "json"]);
    let report = run.json();
    assert_eq!((run.code, &report["clusters"][0]["state"]), (5, &"held".into()), "{}", run.stderr);
    fleet
}

#[test]
fn a_stage_that_was_taken_back_is_tried_again_by_the_form() {
    let fleet = reverted();
    let dashboard = acted_on(&fleet);
    let head = fleet.head("deploy");
    let form = format!("plan={}", plan(&dashboard, "retry"));
    let answer = dashboard.post("/clusters/mgmt/actions/retry", &bearer(), &form);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_ne!(fleet.head("deploy"), head);
    // The wish is a commit in the person's name.
    let commit = fleet.repository.find_commit(fleet.head("deploy").unwrap()).unwrap();
    assert_eq!(commit.summary().unwrap(), Some("mgmt: retry cert-manager"));
    assert_eq!(commit.author().to_string(), PERSON);
}

#[test]
fn an_action_that_cannot_be_has_no_button_and_says_why() {
    let fleet = Fleet::settled();
    let dashboard = acted_on(&fleet);
    let session = dashboard.log_in(TOKEN);
    let shown = page(&dashboard, &session, "/clusters/mgmt/actions");
    assert!(!shown.contains("/actions/approve\"") && !shown.contains("/actions/retry\""), "{shown}");
    assert!(shown.contains("Not now: nothing is proposed for cluster mgmt"), "{shown}");
    let offer = &offers(&dashboard)["offers"][0];
    assert_eq!(offer["offered"]["is"], "impossible", "{offer}");
}

#[test]
fn nothing_is_done_that_nobody_here_has_asked_for() {
    let fleet = asked();
    let dashboard = acted_on(&fleet);
    let (session, other) = (dashboard.log_in(TOKEN), dashboard.log_in(TOKEN));
    let own = fields(&page(&dashboard, &session, "/clusters/mgmt/actions"), "approve");
    let of_other = fields(&page(&dashboard, &other, "/clusters/mgmt/actions"), "approve");
    let plan = own.split('&').find(|field| field.starts_with("plan=")).unwrap();
    let zeros = own.replace(plan, &format!("plan=sha256:{}", "0".repeat(64)));
    let head = fleet.head("deploy");
    let approve = "/clusters/mgmt/actions/approve";
    let cookie = format!("Cookie: {session}\r\n");
    let foreign = |more: &str| format!("{cookie}{more}\r\n");
    let huge = format!("{own}&reason={}", "x".repeat(70 << 10));
    let long = format!("{own}&reason={}", "x".repeat(2000));
    for (what, path, headers, form, status) in [
        ("nobody is logged in", approve, "", &own, 401),
        ("a wrong token", approve, "Authorization: Bearer wrong\r\n", &own, 401),
        ("no mark", approve, &cookie, &plan.to_owned(), 403),
        ("the mark of another session", approve, &cookie, &of_other, 403),
        ("another site, by Fetch Metadata", approve, &foreign("Sec-Fetch-Site: cross-site"), &own, 403),
        ("a sister site", approve, &foreign("Sec-Fetch-Site: same-site"), &own, 403),
        ("another site, by Origin", approve, &foreign("Origin: http://attacker.example"), &own, 403),
        ("a sandboxed page", approve, &foreign("Origin: null"), &own, 403),
        ("another port", approve, &foreign("Origin: http://localhost:1"), &own, 403),
        ("another plan", approve, &cookie, &zeros, 409),
        ("no plan", approve, &cookie, &own.replace(plan, "plan=x"), 400),
        ("no such action", "/clusters/mgmt/actions/destroy", &cookie, &own, 404),
        ("no such cluster", "/clusters/nowhere/actions/approve", &cookie, &own, 404),
        ("a huge form", approve, &cookie, &huge, 413),
        ("a long reason", "/clusters/mgmt/actions/reject", &cookie, &long, 400),
    ] {
        let answer = dashboard.post(path, headers, form);
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert_eq!(fleet.head("deploy"), head, "{what}");
    }
    let get = dashboard.ask(&format!("GET {approve}?{own} HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
    assert_eq!(get.status, 405, "a link does nothing");
    let plain = format!(
        "POST {approve} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n{cookie}Content-Length: {}\r\n\r\n{own}",
        own.len()
    );
    assert_eq!(dashboard.ask(&plain).status, 415, "a form of plain text, which other sites may send");
    assert_eq!(fleet.head("deploy"), head);
    // The same form counts once it comes from its own page.
    assert_eq!(dashboard.post(approve, &cookie, &own).status, 200);
    assert_ne!(fleet.head("deploy"), head);
}

#[test]
fn nobody_acts_where_nobody_is_known_or_the_dashboard_only_reads() {
    let fleet = asked();
    let head = fleet.head("deploy");
    for (verb, arguments) in
        [("run", &["--listen", "off", "--health-address", "off"][..]), ("web", &["--web-token-person", PERSON])]
    {
        let dashboard = with(&fleet, verb, arguments);
        let offers = offers(&dashboard);
        assert!(offers["person"].is_null(), "{offers}");
        let session = dashboard.log_in(TOKEN);
        let shown = page(&dashboard, &session, "/clusters/mgmt/actions");
        assert!(!shown.contains("<form") && shown.contains("stepgate approve mgmt --yes"), "{shown}");
        let form = format!("plan={}", plan(&dashboard, "approve"));
        assert_eq!(dashboard.post("/clusters/mgmt/actions/approve", &bearer(), &form).status, 403, "{verb}");
        assert_eq!(fleet.head("deploy"), head);
    }
}
