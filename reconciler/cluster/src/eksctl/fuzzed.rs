//! Answers of programs, which may print anything.

use fuzz::fuzz;

use super::answers;
use super::output::last_lines;

#[test]
fn fuzzed_answers_of_eksctl_are_read_or_refused() {
    let seeds = [
        r#"[{"Name": "shop", "Version": "1.32", "Status": "ACTIVE", "Health": {"Issues": [{"Code": "a", "Message": "b"}]}}]"#,
        r#"[{"Name": "ng-1-32", "Status": "CREATING", "Version": "1.32"}]"#,
        r#"[{"Name": "vpc-cni", "Version": "v1.20.4-eksbuild.2", "Status": "ACTIVE", "Issues": null}]"#,
    ];
    fuzz("eksctl-answer", seeds.map(|seed| seed.as_bytes().to_vec()), |input| {
        let errors =
            [answers::cluster(input, "shop").err(), answers::node_groups(input).err(), answers::addons(input).err()];
        if errors.iter().flatten().any(String::is_empty) {
            Err("an error without a message".to_owned())
        } else {
            Ok(())
        }
    });
}

#[test]
fn fuzzed_output_is_kept_bounded_and_without_control_characters() {
    let seed = "2026-05-01 12:00:00 [\u{1b}[32m\u{2139}\u{1b}[0m]  building node group stack\nAWS_SECRET_ACCESS_KEY=abc\ttoken: k8s-aws-v1.abc\n";
    fuzz("eksctl-output", [seed.as_bytes().to_vec()], |input| {
        let lines = last_lines(input);
        let total: usize = lines.iter().map(String::len).sum();
        if lines.len() > 100 || total > 100_000 {
            return Err(format!("{} lines of {total} bytes", lines.len()));
        }
        if lines.iter().any(|line| line.contains('\u{1b}')) { Err("an escape is kept".to_owned()) } else { Ok(()) }
    });
}
