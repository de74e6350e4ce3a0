//! Remote repositories through the git program.

use super::*;
use crate::{Limit, Limits, Transport};

#[test]
fn a_refresh_follows_moved_new_and_deleted_branches() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open_remote("copy");
    let (main, deploy) = (branch("main"), branch("deploy"));
    let both = [main.clone(), deploy.clone()];
    assert_eq!(repository.head(&main).unwrap(), None, "nothing is fetched by opening");
    repository.refresh(&both).unwrap();
    assert_eq!(repository.head(&main).unwrap(), sandbox.head("main"));
    assert_eq!(repository.snapshot(&deploy).unwrap_err().code(), "missing-branch");

    sandbox.import("deploy", None, &[("b", "1")], "deploy");
    // A name that merely ends the same way is another branch.
    sandbox.import("x/refs/heads/main", None, &[("c", "1")], "odd");
    sandbox.import("main", Some("main^0"), &[("a", "2")], "move");
    let heads = repository.heads(&both).unwrap();
    assert_eq!(heads[&main], sandbox.head("main"));
    assert_ne!(repository.head(&main).unwrap(), heads[&main], "asking fetches nothing");
    repository.refresh(&both).unwrap();
    assert_eq!(&*repository.snapshot(&main).unwrap().read(&path("a")).unwrap(), b"2");
    assert_eq!(&*repository.snapshot(&deploy).unwrap().read(&path("b")).unwrap(), b"1");

    sandbox.git(&["branch", "-D", "deploy"]);
    // A person rewrote main.
    let rewritten = sandbox.import("main", None, &[("a", "3")], "rewrite");
    repository.refresh(&both).unwrap();
    assert_eq!(repository.head(&deploy).unwrap(), None);
    assert_eq!(repository.head(&main).unwrap(), Some(rewritten));
    assert_eq!(repository.heads(&both).unwrap()[&deploy], None);
}

#[test]
fn a_branch_removed_after_it_was_listed_stops_no_other() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let repository = sandbox.open_remote("copy");
    let (main, proposal) = (branch("main"), branch("stepgate/fleet/capi"));
    let both = [main.clone(), proposal.clone()];
    sandbox.git(&["branch", proposal.as_str()]);
    repository.refresh(&both).unwrap();
    let moved = sandbox.import("main", Some("main^0"), &[("a", "2")], "move");
    sandbox.import(proposal.as_str(), Some("main^0"), &[("a", "3")], "propose");
    let listed = repository.heads(&both).unwrap();
    // Its pull request was merged in this moment, and the forge removes it.
    sandbox.git(&["branch", "-D", proposal.as_str()]);
    repository.refresh_to(&listed).unwrap();
    assert_eq!(repository.head(&main).unwrap(), Some(moved));
    assert_eq!(repository.head(&proposal).unwrap(), None);
}

#[test]
fn copies_are_kept_apart_and_found_again() {
    let (one, two) = (Sandbox::with_files(&[("a", "1")]), Sandbox::with_files(&[("a", "2")]));
    let cache = one.folder.path().join("shared");
    let open = |sandbox: &Sandbox| {
        let location = format!("file://{}", sandbox.path().display()).parse().unwrap();
        Repository::open_with(&location, &GitSettings { cache: cache.clone(), ..GitSettings::default() }).unwrap()
    };
    for _ in 0..2 {
        for (sandbox, text) in [(&one, b"1"), (&two, b"2")] {
            let repository = open(sandbox);
            repository.refresh(&[branch("main")]).unwrap();
            assert_eq!(&*repository.snapshot(&branch("main")).unwrap().read(&path("a")).unwrap(), text);
        }
    }
    assert_eq!(std::fs::read_dir(cache).unwrap().count(), 2);
}

#[test]
fn two_at_once_have_copies_of_their_own_and_leave_them_to_the_next() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let cache = sandbox.folder.path().join("shared");
    let location = format!("file://{}", sandbox.path().display()).parse().unwrap();
    let open = || Repository::open_with(&location, &GitSettings { cache: cache.clone(), ..GitSettings::default() });
    let main = [branch("main")];
    for _ in 0..3 {
        // A controller that is about to write the references of its copy.
        let controller = open().unwrap();
        controller.refresh(&main).unwrap();
        std::fs::write(controller.folder().join("refs/heads/main.lock"), "").unwrap();
        let verb = open().unwrap();
        sandbox.import("main", Some(&sandbox.git(&["rev-parse", "main"])), &[("a", "2")], "change");
        verb.refresh(&main).unwrap();
        assert_eq!(&*verb.snapshot(&branch("main")).unwrap().read(&path("a")).unwrap(), b"2");
        std::fs::remove_file(controller.folder().join("refs/heads/main.lock")).unwrap();
    }
    assert_eq!(std::fs::read_dir(cache).unwrap().count(), 2);
}

#[test]
fn what_a_killed_process_left_locked_in_its_copy_is_free_for_the_next() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let main = [branch("main")];
    let repository = sandbox.open_remote("copy");
    repository.refresh(&main).unwrap();
    let folder = repository.folder().to_owned();
    drop(repository);
    let locks = ["refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock"];
    let locks = locks.map(|lock| folder.join(lock));
    locks.iter().for_each(|lock| std::fs::write(lock, "half of a").unwrap());
    sandbox.import("main", Some("main^0"), &[("a", "2")], "move");
    let repository = sandbox.open_remote("copy");
    repository.refresh(&main).unwrap();
    assert_eq!(&*repository.snapshot(&main[0]).unwrap().read(&path("a")).unwrap(), b"2");
    assert!(locks.iter().all(|lock| !lock.exists()));
}

#[test]
fn a_remote_that_is_gone_or_deaf_is_named_without_its_password() {
    let sandbox = Sandbox::empty();
    for (url, codes) in [
        ("file:///nonexistent/fleet.git".to_owned(), &["remote-not-found"][..]),
        ("http://user:CANARY@127.0.0.1:1/fleet.git".to_owned(), &["unreachable"]),
        ("ssh://git@127.0.0.1:1/fleet.git".to_owned(), &["unreachable", "program-missing", "program"]),
    ] {
        let location = url.parse().unwrap();
        let repository = Repository::open_with(&location, &sandbox.settings("copy")).unwrap();
        let error = repository.refresh(&[branch("main")]).unwrap_err();
        assert!(codes.contains(&error.code()), "{url}: {error:?}");
        assert!(!format!("{error} {error:?} {repository:?}").contains("CANARY"), "{error:?}");
    }
}

#[test]
fn an_empty_remote_has_no_branches() {
    let sandbox = Sandbox::empty();
    let repository = sandbox.open_remote("copy");
    repository.refresh(&[branch("main")]).unwrap();
    assert_eq!(repository.snapshot(&branch("main")).unwrap_err().code(), "missing-branch");
    let first = commit(&repository, &draft(None, &[("a", Some("1"))]));
    assert_eq!(repository.push(&branch("main"), &first, None).unwrap(), PushOutcome::Pushed);
    assert_eq!(sandbox.head("main"), Some(first));
    sandbox.check();
}

/// An HTTP server that refuses everything with 401 and remembers what it was sent.
fn refusing_server() -> (std::net::SocketAddr, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap_or_default();
                if line.is_empty() {
                    break;
                }
                request.push_str(&line);
                request.push('\n');
            }
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

#[test]
fn a_mounted_secret_is_sent_and_a_refusal_asks_nobody() {
    let sandbox = Sandbox::empty();
    let (address, requests) = refusing_server();
    let location: RepositoryLocation = format!("http://{address}/fleet.git").parse().unwrap();
    assert!(matches!(&location, RepositoryLocation::Remote(url) if url.transport() == Transport::Http));

    let secret = sandbox.folder.path().join("it's a secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("username"), "stepgate\n").unwrap();
    std::fs::write(secret.join("password"), "CANARY\n").unwrap();
    let settings = GitSettings { secret: Some(secret), ..sandbox.settings("copy") };
    let error = Repository::open_with(&location, &settings).unwrap().refresh(&[branch("main")]).unwrap_err();
    assert_eq!(error.code(), "authentication", "{error:?}");
    assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    let seen: Vec<String> = requests.try_iter().collect();
    // base64 of stepgate:CANARY
    assert!(seen.iter().any(|request| request.contains("Basic c3RlcGdhdGU6Q0FOQVJZ")), "{seen:?}");

    // A folder that holds nothing for this server is as none.
    let empty = sandbox.folder.path().join("for something else");
    std::fs::create_dir(&empty).unwrap();
    for secret in [None, Some(empty)] {
        let settings = GitSettings { secret, ..sandbox.settings("other") };
        let error = Repository::open_with(&location, &settings).unwrap().refresh(&[branch("main")]).unwrap_err();
        assert_eq!(error.code(), "authentication", "{error:?}");
        assert!(requests.try_iter().all(|request| !request.contains("Authorization")));
    }
}

#[test]
fn a_list_of_branches_that_is_cut_is_an_error_and_drops_no_branch() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let head = sandbox.head("main").unwrap();
    sandbox.git(&["branch", "stepgate/fleet/capi"]);
    let repository = sandbox.open_remote("copy");
    assert_eq!(repository.refresh_below("stepgate/").unwrap(), [branch("stepgate/fleet/capi")]);
    let lines = (0..130_000).map(|number| format!("{head} refs/heads/stepgate/{number:06}/capi\n")).collect::<String>();
    let text = format!("# pack-refs with: peeled fully-peeled sorted \n{head} refs/heads/main\n{lines}");
    std::fs::write(sandbox.path().join("packed-refs"), text).unwrap();
    let error = repository.refresh_below("stepgate/").unwrap_err();
    assert_eq!(error.code(), "output-cut", "{error}");
    assert_eq!(repository.head(&branch("stepgate/fleet/capi")).unwrap(), Some(head.clone()));
    // What asks for its own branches alone goes on.
    let heads = repository.heads(&[branch("main")]).unwrap();
    assert_eq!(heads[&branch("main")], Some(head));
}

#[test]
fn more_proposed_branches_than_are_looked_at_are_an_error_here_and_there() {
    let sandbox = Sandbox::with_files(&[("a", "1")]);
    let limits = Limits::default().with(Limit::Branches, 3);
    let file = format!("file://{}", sandbox.path().display()).parse().unwrap();
    for location in [RepositoryLocation::Local(sandbox.path()), file] {
        let settings = GitSettings { limits: limits.clone(), ..sandbox.settings("copy") };
        let repository = Repository::open_with(&location, &settings).unwrap();
        for number in 0..4 {
            sandbox.git(&["branch", "-f", &format!("stepgate/{number}/capi"), "main"]);
            let below = repository.refresh_below("stepgate/");
            if number < 3 {
                assert_eq!(below.unwrap().len(), number + 1);
            } else {
                let error = below.unwrap_err();
                assert!(error.to_string().contains("more than 3 branches"), "{error}");
            }
        }
        (0..4).for_each(|number| drop(sandbox.git(&["branch", "-D", &format!("stepgate/{number}/capi")])));
    }
}

#[test]
fn what_would_not_be_read_is_not_fetched_and_stops_nothing() {
    let sandbox = Sandbox::with_files(&[("clusters/x/large.bin", &noise(50_000)), ("clusters/y/a.yaml", "a")]);
    sandbox.git(&["config", "uploadpack.allowFilter", "true"]);
    let location = format!("file://{}", sandbox.path().display()).parse().unwrap();
    let limits = Limits::default().with(Limit::FileBytes, 10_000);
    let repository = Repository::open_with(&location, &GitSettings { limits, ..sandbox.settings("copy") }).unwrap();
    let main = branch("main");
    for number in 0..3 {
        repository.refresh(std::slice::from_ref(&main)).unwrap();
        let snapshot = repository.snapshot(&main).unwrap();
        assert_eq!(&*snapshot.read(&path("clusters/y/a.yaml")).unwrap(), b"a");
        assert_eq!(snapshot.listing().unwrap().entries.len(), 2 + number);
        let error = snapshot.read(&path("clusters/x/large.bin")).unwrap_err();
        assert!(error.code() == "missing-object" && error.hint().unwrap().contains("file-bytes"), "{error}");
        // Commits on top of it are made and pushed all the same, ours and others'.
        let name = format!("clusters/x/{number}.yaml");
        if number == 0 {
            advance(&repository, "main", &[(&name, Some("x"))]);
        } else {
            sandbox.import("main", Some("main^0"), &[(&name, "x")], "Add a file");
        }
    }
    sandbox.check();
}
