use super::*;

/// The lines that own a path.
fn lines(text: &str, dialect: OwnersDialect, path: &str) -> Vec<String> {
    let owners = Owners::read(text, dialect).unwrap();
    let line = |entry: OwningEntry| entry.owners.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    owners.of([path]).into_iter().map(line).collect()
}

#[test]
fn patterns_of_github_are_those_of_gitignore() {
    for (pattern, path, owned) in [
        ("*", "clusters/a/rollout.yaml", true),
        ("*.yaml", "clusters/a/rollout.yaml", true),
        ("*.yaml", "clusters/a/rollout.md", false),
        ("/clusters/", "clusters/a/rollout.yaml", true),
        ("/clusters", "clusters/a/rollout.yaml", true),
        ("/clusters/", "old/clusters/a", false),
        ("clusters/", "old/clusters/a", true),
        ("clusters/prod-*/", "clusters/prod-1/capi/core.yaml", true),
        ("clusters/prod-*/", "clusters/lab-1/capi/core.yaml", false),
        ("clusters/prod-*", "old/clusters/prod-1", false),
        ("docs/*", "docs/a.md", true),
        ("docs/*", "docs/more/a.md", false),
        ("**/capi", "clusters/a/capi/core.yaml", true),
        ("/clusters/**/core.yaml", "clusters/core.yaml", true),
        ("/clusters/**/core.yaml", "clusters/a/b/core.yaml", true),
        ("/clusters/**", "clusters/a/b", true),
        ("/clusters/?/x", "clusters/a/x", true),
        ("/clusters/?/x", "clusters/ab/x", false),
        ("a.b", "aXb", false),
        ("with\\ blank", "with blank", true),
    ] {
        let found = lines(&format!("{pattern} @alice"), OwnersDialect::GitHub, path);
        assert_eq!(!found.is_empty(), owned, "{pattern} {path}");
    }
}

#[test]
fn the_last_line_that_matches_owns_a_path() {
    let text = "# who\n* @everybody # all\n/clusters/ @org/platform a@x.org\n/clusters/lab/\n";
    let of = |path: &str| lines(text, OwnersDialect::GitHub, path);
    assert_eq!(of("README.md"), ["everybody"]);
    assert_eq!(of("clusters/prod/x"), ["@org/platform a@x.org"]);
    assert_eq!(of("clusters/lab/x"), [""; 0], "nobody owns it");
    let owners = Owners::read(text, OwnersDialect::GitHub).unwrap();
    let entries = owners.of(["clusters/prod/x", "README.md", "clusters/prod/y"]);
    let names: Vec<&str> = entries.iter().map(|entry| entry.entry.as_str()).collect();
    assert_eq!(names, ["`*` (CODEOWNERS, line 2)", "`/clusters/` (CODEOWNERS, line 3)"]);
}

#[test]
fn each_section_of_gitlab_is_heard() {
    let text = "* @all\n[Platform][2] @org/platform\n/clusters/\n/clusters/lab/ @lab\n^[Docs]\n* @writers\n[Network]\n\
                cilium/ @network\n!cilium/old/\n[PLATFORM]\n/flux/ @flux\n";
    let of = |path: &str| lines(text, OwnersDialect::GitLab, path);
    assert_eq!(of("clusters/a/x"), ["all", "@org/platform"]);
    assert_eq!(of("clusters/lab/x"), ["all", "lab"]);
    assert_eq!(of("clusters/a/cilium/x"), ["all", "@org/platform", "network"]);
    assert_eq!(of("cilium/old/x"), ["all"]);
    assert_eq!(of("flux/a"), ["all", "flux"]);
    let owners = Owners::read(text, OwnersDialect::GitLab).unwrap();
    assert_eq!(owners.of(["clusters/a/x"]).iter().map(|entry| entry.wanted).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(lines("a/b @x", OwnersDialect::GitLab, "c/a/b"), ["x"], "tied to the top only by its first slash");
}

#[test]
fn every_expression_of_gitea_that_matches_is_heard() {
    let text = "clusters/.* @alice\n.*\\.yaml @org/platform\n!docs/.* @carol\n";
    let of = |path: &str| lines(text, OwnersDialect::Gitea, path);
    assert_eq!(of("clusters/a/x.yaml"), ["alice", "@org/platform", "carol"]);
    assert_eq!(of("docs/clusters/a"), [""; 0]);
}

#[test]
fn a_line_that_cannot_be_followed_is_an_error() {
    for (text, dialect, wanted) in [
        ("* @alice\n!docs/ @bob", OwnersDialect::GitHub, "line 2: `!docs/`"),
        ("/a[bc] @alice", OwnersDialect::GitHub, "sets of characters"),
        ("* alice", OwnersDialect::GitHub, "`alice` is not a valid owner"),
        ("// @alice", OwnersDialect::GitHub, "`//` is not a valid pattern"),
        ("[A][x]\n* @a", OwnersDialect::GitLab, "`x` is not a valid number"),
        ("( @alice", OwnersDialect::Gitea, "`(` is not a valid pattern"),
        ("(a{1000}){1000} @alice", OwnersDialect::Gitea, "is not a valid pattern"),
    ] {
        let error = Owners::read(text, dialect).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
