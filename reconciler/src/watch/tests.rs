//! Real repositories, a real socket, and no sleeps: every wait ends with a notice, or fails with what it was for.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use host::waiting::end_of;

/// A poll that never comes within a test.
const NEVER: Duration = Duration::from_secs(86_400);

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

struct Fleet {
    folder: TempDir,
}

impl Fleet {
    fn new() -> Self {
        let fleet = Self { folder: TempDir::new().unwrap() };
        git(fleet.folder.path(), &["init", "-q", "--bare", "fleet.git"]);
        fleet
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fleet.git")
    }

    /// Moves a branch the way the git program does, to a commit with this message.
    fn advance(&self, branch: &str, message: &str) -> CommitId {
        let tree = git(&self.path(), &["mktree"]);
        let commit = git(&self.path(), &["commit-tree", "-m", message, &tree]);
        git(&self.path(), &["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit.parse().unwrap()
    }

    fn watch(&self, interval: Duration) -> Watch {
        let repository = Repository::open(&RepositoryLocation::Local(self.path())).unwrap();
        Watch::start(repository, settings(interval))
    }
}

fn settings(interval: Duration) -> WatchSettings {
    let branches = ["main", "deploy"].map(|name| name.parse().unwrap());
    WatchSettings { interval, ..WatchSettings::new(branches) }
}

async fn next(watch: &mut Watch) -> HeadChanged {
    end_of("the next notice", watch.changed()).await.expect("the watch ended")
}

/// Asserts that the next notice is this move.
async fn expect(
    watch: &mut Watch,
    branch: &str,
    before: Option<&CommitId>,
    after: Option<&CommitId>,
    noticed: Noticed,
) {
    let change = next(watch).await;
    assert_eq!(
        (change.branch.as_str(), change.before.as_ref(), change.after.as_ref(), change.noticed),
        (branch, before, after, noticed)
    );
}

#[tokio::test]
async fn moves_creation_packing_and_deletion_are_noticed_by_file_events() {
    let fleet = Fleet::new();
    let one = fleet.advance("main", "one");
    let mut watch = fleet.watch(NEVER);
    expect(&mut watch, "main", None, Some(&one), Noticed::Start).await;
    let two = fleet.advance("main", "two");
    expect(&mut watch, "main", Some(&one), Some(&two), Noticed::FileEvent).await;
    let deploy = fleet.advance("deploy", "deploy");
    expect(&mut watch, "deploy", None, Some(&deploy), Noticed::FileEvent).await;
    // Packing moves no branch; deleting a packed one changes only packed-refs.
    git(&fleet.path(), &["pack-refs", "--all"]);
    git(&fleet.path(), &["branch", "-D", "deploy"]);
    expect(&mut watch, "deploy", Some(&deploy), None, Noticed::FileEvent).await;
    // Other branches and our own reading are no news: the next notice is the next move of ours.
    fleet.advance("other", "other");
    git(&fleet.path(), &["log", "--all"]);
    let three = fleet.advance("main", "three");
    expect(&mut watch, "main", Some(&two), Some(&three), Noticed::FileEvent).await;
}

#[tokio::test]
async fn branches_that_are_named_later_are_watched_from_then_on_and_others_no_more() {
    let fleet = Fleet::new();
    let (one, staged) = (fleet.advance("main", "one"), fleet.advance("staged", "staged"));
    let mut watch = fleet.watch(NEVER);
    expect(&mut watch, "main", None, Some(&one), Noticed::Start).await;
    watch.follow(["main", "staged"].map(|name| name.parse().unwrap()).to_vec());
    expect(&mut watch, "staged", None, Some(&staged), Noticed::Start).await;
    fleet.advance("deploy", "nobody looks at this");
    let next = fleet.advance("staged", "next");
    expect(&mut watch, "staged", Some(&staged), Some(&next), Noticed::FileEvent).await;
}

#[tokio::test]
async fn a_burst_ends_with_the_last_head() {
    let fleet = Fleet::new();
    let mut watch = fleet.watch(NEVER);
    let mut last = None;
    for number in 0..20 {
        last = Some(fleet.advance("main", &number.to_string()));
    }
    let mut notices = 0;
    loop {
        notices += 1;
        if next(&mut watch).await.after == last {
            break;
        }
    }
    assert!(notices <= 20, "{notices}");
}

#[tokio::test]
async fn a_replaced_folder_is_watched_again() {
    let fleet = Fleet::new();
    let one = fleet.advance("main", "one");
    let mut watch = fleet.watch(NEVER);
    expect(&mut watch, "main", None, Some(&one), Noticed::Start).await;
    for round in 0..3 {
        let before = git(&fleet.path(), &["rev-parse", "main"]).parse().unwrap();
        let other = Fleet::new();
        let new = other.advance("main", &format!("restored {round}"));
        std::fs::rename(fleet.path(), fleet.folder.path().join(format!("old-{round}"))).unwrap();
        std::fs::rename(other.path(), fleet.path()).unwrap();
        expect(&mut watch, "main", Some(&before), Some(&new), Noticed::FileEvent).await;
        let next = fleet.advance("main", &format!("next {round}"));
        expect(&mut watch, "main", Some(&new), Some(&next), Noticed::FileEvent).await;
    }
}

#[tokio::test]
async fn a_missing_folder_is_a_failure_and_no_deletion() {
    let fleet = Fleet::new();
    let one = fleet.advance("main", "one");
    let mut watch = fleet.watch(NEVER);
    expect(&mut watch, "main", None, Some(&one), Noticed::Start).await;
    let mut failure = watch.failure();
    let away = fleet.folder.path().join("away");
    std::fs::rename(fleet.path(), &away).unwrap();
    end_of("the failure", failure.wait_for(Option::is_some)).await.unwrap();
    std::fs::rename(&away, fleet.path()).unwrap();
    end_of("the end of the failure", failure.wait_for(Option::is_none)).await.unwrap();
    let two = fleet.advance("main", "two");
    expect(&mut watch, "main", Some(&one), Some(&two), Noticed::FileEvent).await;
}

#[tokio::test]
async fn a_work_tree_is_watched_through_its_git_folder() {
    let fleet = Fleet::new();
    let one = fleet.advance("main", "one");
    git(fleet.folder.path(), &["clone", "-q", "fleet.git", "clone"]);
    let clone = fleet.folder.path().join("clone");
    let repository = Repository::open(&RepositoryLocation::Local(clone.clone())).unwrap();
    let mut watch = Watch::start(repository, settings(NEVER));
    expect(&mut watch, "main", None, Some(&one), Noticed::Start).await;
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "two"]);
    let two = git(&clone, &["rev-parse", "main"]).parse().unwrap();
    expect(&mut watch, "main", Some(&one), Some(&two), Noticed::FileEvent).await;
}

#[tokio::test]
async fn a_remote_repository_is_polled_and_nudged() {
    let fleet = Fleet::new();
    let one = fleet.advance("main", "one");
    let open = || {
        let location = format!("file://{}", fleet.path().display()).parse().unwrap();
        let settings = git::GitSettings { cache: fleet.folder.path().join("cache"), ..git::GitSettings::default() };
        Repository::open_with(&location, &settings).unwrap()
    };
    let mut polled = Watch::start(open(), settings(Duration::from_millis(5)));
    let mut nudged = Watch::start(open(), settings(NEVER));
    expect(&mut polled, "main", None, Some(&one), Noticed::Start).await;
    expect(&mut nudged, "main", None, Some(&one), Noticed::Start).await;
    let two = fleet.advance("main", "two");
    expect(&mut polled, "main", Some(&one), Some(&two), Noticed::Poll).await;
    nudged.nudge().look(Noticed::Webhook);
    expect(&mut nudged, "main", Some(&one), Some(&two), Noticed::Webhook).await;
}

#[tokio::test]
async fn a_webhook_is_told_although_no_branch_has_moved() {
    let fleet = Fleet::new();
    let watch = fleet.watch(Duration::from_secs(3600));
    let told = watch.told();
    watch.nudge().look(Noticed::Webhook);
    end_of("it is told of the webhook", told.notified()).await;
}

#[test]
fn jitter_stays_within_a_tenth() {
    for random in [0, 1, 100, 200, u64::MAX, 0x1234_5678_9abc] {
        let pause = jitter(Duration::from_secs(100), random);
        assert!((Duration::from_secs(90)..=Duration::from_secs(110)).contains(&pause), "{pause:?}");
    }
    assert_ne!(jitter(Duration::from_secs(100), 0), jitter(Duration::from_secs(100), 200));
}

// The webhook endpoint.

const SECRET: &str = "it is a secret to everybody";

async fn serve(settings: WebhookSettings) -> (std::net::SocketAddr, mpsc::Receiver<Noticed>) {
    let (sender, wishes) = mpsc::channel(64);
    let router = webhook(&settings, Nudge { sender }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, wishes)
}

async fn post(address: std::net::SocketAddr, headers: &[(&str, &str)], body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    // A server that refuses a large body may close before it has read all of it.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = end_of("the answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
}

fn sign(secret: &str, body: &[u8]) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    ring::hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn accepting() -> WebhookSettings {
    WebhookSettings::new(WebhookSecret::new(SECRET).unwrap())
}

#[tokio::test]
async fn the_three_forges_are_understood() {
    // The example of GitHub's documentation "Validating webhook deliveries".
    assert_eq!(
        sign("It's a Secret to Everybody", b"Hello, World!"),
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    );
    let (address, mut wishes) = serve(accepting()).await;
    let body = b"{\"ref\":\"refs/heads/main\"}";
    let (hub, plain) = (format!("sha256={}", sign(SECRET, body)), sign(SECRET, b"gitea"));
    let github = [("X-Hub-Signature-256", hub.as_str()), ("X-GitHub-Delivery", "1"), ("X-GitHub-Event", "push")];
    assert_eq!(post(address, &github, body).await, 202);
    let gitea = [("X-Gitea-Signature", plain.as_str()), ("X-Gitea-Delivery", "2")];
    assert_eq!(post(address, &gitea, b"gitea").await, 202);
    let gitlab = [("X-Gitlab-Token", SECRET), ("X-Gitlab-Event-UUID", "3")];
    assert_eq!(post(address, &gitlab, body).await, 202);
    for _ in 0..3 {
        assert_eq!(end_of("the wish", wishes.recv()).await, Some(Noticed::Webhook));
    }
    let ping = format!("sha256={}", sign(SECRET, b"ping"));
    let ping = [("X-Hub-Signature-256", ping.as_str()), ("X-GitHub-Delivery", "4"), ("X-GitHub-Event", "ping")];
    assert_eq!(post(address, &ping, b"ping").await, 200);
    assert!(wishes.try_recv().is_err());
}

#[tokio::test]
async fn what_is_not_proven_is_refused() {
    let (address, mut wishes) = serve(accepting()).await;
    let body = b"body";
    let right = sign(SECRET, body);
    let hub = |text: &str| format!("sha256={text}");
    let mut wrong_byte = right.clone().into_bytes();
    wrong_byte[0] = if wrong_byte[0] == b'0' { b'1' } else { b'0' };
    let wrong_byte = String::from_utf8(wrong_byte).unwrap();
    let delivery = ("X-GitHub-Delivery", "1");
    for headers in [
        vec![delivery],
        vec![delivery, ("X-Hub-Signature-256", right.as_str())],
        vec![delivery, ("X-Hub-Signature-256", &hub(""))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&wrong_byte))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&right[..62]))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&format!("{right}00")))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&sign("another secret", body)))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&sign(SECRET, b"another body")))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&sign("", body)))],
        vec![delivery, ("X-Hub-Signature", "sha1=0000000000000000000000000000000000000000")],
        vec![delivery, ("X-Hub-Signature-256", &hub(&right)), ("X-Hub-Signature-256", &hub(&right))],
        vec![delivery, ("X-Hub-Signature-256", &hub(&right)), ("X-Gitea-Signature", &wrong_byte)],
        vec![delivery, ("X-Gitea-Signature", &hub(&right))],
        vec![delivery, ("X-Gitlab-Token", "")],
        vec![delivery, ("X-Gitlab-Token", &SECRET[1..])],
        vec![delivery, ("X-Gitlab-Token", &right)],
        vec![delivery, ("X-Gitlab-Token", SECRET), ("X-Gitlab-Token", "x")],
    ] {
        assert_eq!(post(address, &headers, body).await, 401, "{headers:?}");
    }
    assert_eq!(post(address, &[("X-Hub-Signature-256", &hub(&right))], body).await, 400, "no delivery id");
    assert!(wishes.try_recv().is_err(), "a refused webhook made the watch look");
    // The refused ones left no trace: the right one still counts.
    assert_eq!(post(address, &[delivery, ("X-Hub-Signature-256", &hub(&right))], body).await, 202);
}

#[tokio::test]
async fn a_replay_is_refused_even_under_another_delivery_id() {
    let (address, mut wishes) = serve(accepting()).await;
    let signature = |body: &[u8]| format!("sha256={}", sign(SECRET, body));
    let send = |id: &'static str, body: &'static [u8]| {
        let signature = signature(body);
        async move { post(address, &[("X-Hub-Signature-256", &signature), ("X-GitHub-Delivery", id)], body).await }
    };
    assert_eq!(send("1", b"one").await, 202);
    assert_eq!(send("1", b"one").await, 409);
    assert_eq!(send("2", b"one").await, 409);
    assert_eq!(send("1", b"two").await, 409);
    assert_eq!(send("3", b"three").await, 202);
    assert!(wishes.try_recv().is_ok() && wishes.try_recv().is_ok() && wishes.try_recv().is_err());
}

#[tokio::test]
async fn large_bodies_are_refused_and_both_secrets_work_during_a_change() {
    let secrets = vec![WebhookSecret::new("old\n").unwrap(), WebhookSecret::new("new").unwrap()];
    let (address, _wishes) = serve(WebhookSettings { secrets, largest_body: 1024, remembered: 4 }).await;
    for (number, secret) in ["old", "new"].into_iter().enumerate() {
        let signature = format!("sha256={}", sign(secret, b"x"));
        let delivery = number.to_string();
        let status =
            post(address, &[("X-Hub-Signature-256", &signature), ("X-GitHub-Delivery", &delivery)], b"x").await;
        assert_eq!(status, 202, "{secret}");
    }
    let body = vec![b'x'; 4096];
    let signature = format!("sha256={}", sign("new", &body));
    assert_eq!(post(address, &[("X-Hub-Signature-256", &signature), ("X-GitHub-Delivery", "9")], &body).await, 413);
}

#[test]
fn empty_secrets_are_refused_and_none_is_shown() {
    for text in ["", "\n", "  "] {
        assert_eq!(WebhookSecret::new(text).unwrap_err(), WebhookError::EmptySecret);
    }
    let settings = WebhookSettings { secrets: Vec::new(), ..accepting() };
    let (sender, _wishes) = mpsc::channel(1);
    assert_eq!(webhook(&settings, Nudge { sender }).unwrap_err(), WebhookError::NoSecret);
    assert!(!format!("{:?}", accepting()).contains(SECRET));
}
