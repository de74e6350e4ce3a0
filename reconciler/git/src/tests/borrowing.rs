//! Repositories that read what another one holds.

use super::*;

#[test]
fn what_a_borrower_commits_stays_there() {
    for kind in ["local", "remote"] {
        let sandbox = Sandbox::with_files(&[("a", "1")]);
        let repository = if kind == "local" { sandbox.open() } else { sandbox.open_remote("copy") };
        let (main, deploy) = (branch("main"), branch("deploy"));
        repository.refresh(&[main.clone(), deploy.clone()]).unwrap();
        let place = sandbox.folder.path().join("borrower.git");
        let borrower = repository.borrow_to(&place, &[main.clone(), deploy.clone()]).unwrap();
        assert_eq!(borrower.head(&main).unwrap(), repository.head(&main).unwrap(), "{kind}");
        assert_eq!(borrower.head(&deploy).unwrap(), None, "{kind}");
        let packed = sandbox.git(&["count-objects", "-v"]);
        advance(&borrower, "main", &[("a", Some("2"))]);
        advance(&borrower, "deploy", &[("b", Some("1"))]);
        assert_eq!(&*borrower.snapshot(&main).unwrap().read(&path("a")).unwrap(), b"2", "{kind}");
        assert_eq!(&*repository.snapshot(&main).unwrap().read(&path("a")).unwrap(), b"1", "{kind}");
        assert_eq!((sandbox.head("deploy"), sandbox.git(&["count-objects", "-v"])), (None, packed), "{kind}");
        // Whoever borrows can be borrowed from.
        let other =
            borrower.borrow_to(&sandbox.folder.path().join("other.git"), std::slice::from_ref(&deploy)).unwrap();
        assert_eq!(&*other.snapshot(&deploy).unwrap().read(&path("b")).unwrap(), b"1", "{kind}");
        assert_eq!(borrower.borrow_to(&place, &[main]).unwrap_err().code(), "unusable-repository", "{kind}");
    }
}
