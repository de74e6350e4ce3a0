//! Readers of objects that anybody may have pushed.

use fuzz::fuzz;

use crate::RepositoryLocation;
use crate::history::commit_fields::CommitFields;
use crate::history::trailer::StageTrailers;
use crate::store::tree::{parse_tree, write_tree};

#[test]
fn fuzzed_trees_are_written_as_they_are_read() {
    let entry = |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[7; 20]].concat();
    let tree = [entry("100644", "a.yaml"), entry("40000", "clusters"), entry("120000", "link"), entry("160000", "sub")];
    fuzz("tree", [tree.concat()], |input| {
        let Some(mut entries) = parse_tree(input) else { return Ok(()) };
        let written = write_tree(&mut entries);
        let again = parse_tree(&written).ok_or("what was written is not a tree")?;
        if entries.len() == again.len() && written.len() <= input.len() + entries.len() {
            Ok(())
        } else {
            Err(format!("{} entries written, {} read", entries.len(), again.len()))
        }
    });
}

#[test]
fn fuzzed_commits_are_read_or_refused() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    let commit = format!(
        "tree {id}\nparent {id}\nauthor Alice <a@example.com> 1700000000 +0000\ncommitter Bob <b@example.com> 1700000001 -0130\n\
         gpgsig -----BEGIN\n abc\n -----END\n\nRaise capi\n\nStepgate-Rollout: aaaaaaaaaaaa\nStepgate-Cluster: prod\n\
         Stepgate-Stage: workers/md-0\nStepgate-Plan: sha256:{}\nStepgate-Source: {id}\n",
        "a".repeat(64)
    );
    fuzz("commit", [commit.into_bytes()], |input| {
        let (Some(whole), beginning) = (CommitFields::parse(input), CommitFields::parse_beginning(input)) else {
            return Ok(());
        };
        if beginning.is_some_and(|beginning| (beginning.tree, &beginning.parents) != (whole.tree, &whole.parents)) {
            return Err("its beginning is that of another commit".to_owned());
        }
        match StageTrailers::parse(&whole.message) {
            Some(trailers) if StageTrailers::parse(&format!("Subject\n\n{trailers}")).as_ref() != Some(&trailers) => {
                Err(format!("{trailers} is not read as it is written"))
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn fuzzed_addresses_of_repositories_become_no_option() {
    let seeds =
        ["https://user:word@git.example.com:8443/fleet.git", "git@git.example.com:fleet.git", "ssh://a@b/c", "./a:b"];
    fuzz("location", seeds.map(|seed| seed.as_bytes().to_vec()), |input| {
        match String::from_utf8_lossy(input).parse::<RepositoryLocation>() {
            Ok(RepositoryLocation::Remote(url)) if url.to_string().starts_with('-') => {
                Err(format!("{url} is an option"))
            }
            Err(error) if error.to_string().is_empty() => Err("an error without a message".to_owned()),
            _ => Ok(()),
        }
    });
}
