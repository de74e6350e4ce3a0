use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A program in place of helm.
fn program(folder: &Path, script: &str) -> Helm {
    let path = folder.join("helm");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Helm::new(path)
}

fn request() -> ChartRequest {
    ChartRequest {
        chart: "registry.example.org/cilium:1.0.0".to_owned(),
        digest: None,
        locked: None,
        name: "cilium".to_owned(),
        namespace: "kube-system".to_owned(),
        kubernetes_version: "1.31".to_owned(),
        values: "{\"a\":1}".to_owned(),
    }
}

#[test]
fn the_program_gets_chart_values_and_arguments_and_nothing_of_the_person() {
    let folder = tempfile::tempdir().unwrap();
    let helm = program(folder.path(), "echo \"$@\"; /bin/cat chart.tgz values.yaml; echo; /usr/bin/env");
    let text = String::from_utf8(helm.template(b"CHART", &request()).unwrap()).unwrap();
    let mut lines = text.lines();
    let arguments = "template cilium chart.tgz --namespace kube-system --kube-version 1.31 --values values.yaml --include-crds --skip-tests";
    assert_eq!(lines.next(), Some(arguments));
    assert_eq!(lines.next(), Some("CHART{\"a\":1}"));
    let own = ["GOMEMLIMIT=", "HOME=", "TMPDIR=", "HELM_", "KUBECONFIG=", "PWD=", "SHLVL=", "OLDPWD=", "_="];
    for variable in lines {
        assert!(own.iter().any(|prefix| variable.starts_with(prefix)), "{variable}");
    }
    let home = text.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(!Path::new(home).exists(), "{home}");
}

#[test]
fn failures_carry_what_helm_said() {
    let folder = tempfile::tempdir().unwrap();
    let helm = program(folder.path(), "echo 'Error: bad values' >&2; exit 1");
    let error = helm.template(b"", &request()).unwrap_err();
    assert!(error.to_string().contains("Error: bad values"), "{error}");
    let error = Helm::new(folder.path().join("missing")).template(b"", &request()).unwrap_err();
    assert!(matches!(error, HelmError::Start { .. }), "{error}");
}

#[test]
fn a_program_that_hangs_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let helm = program(folder.path(), "exec /bin/sleep 60").with_timeout(Duration::from_millis(200));
    assert!(matches!(helm.template(b"", &request()), Err(HelmError::TimedOut { .. })));
}

#[test]
fn a_program_that_takes_too_much_is_ended_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for script in [
        // Memory, by a text that doubles; a file; output.
        "x=0123456789; while :; do x=$x$x; done",
        "exec /bin/dd if=/dev/zero of=chart.tgz bs=1M count=1000",
        "exec /bin/cat /dev/zero",
    ] {
        let error = program(folder.path(), script).template(b"", &request()).unwrap_err();
        assert!(matches!(error, HelmError::Failed { .. } | HelmError::Start { .. }), "{script}: {error}");
    }
}

#[test]
fn a_named_program_wins_over_the_path_and_is_never_replaced() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(first.path(), "");
    program(second.path(), "");
    let path = std::env::join_paths([Path::new("relative"), second.path()]).unwrap();
    let path = || Some(path.as_os_str());
    let named = first.path().join("helm");
    assert_eq!(Helm::find_in(Some(named.clone().into()), path()).unwrap(), Helm::new(named));
    assert_eq!(Helm::find_in(None, path()).unwrap(), Helm::new(second.path().join("helm")));
    assert_eq!(Helm::find_in(Some("".into()), path()).unwrap(), Helm::new(second.path().join("helm")));
    let missing = Helm::find_in(Some(first.path().join("other").into()), path()).unwrap_err();
    assert!(missing.to_string().contains("which is not a file"), "{missing}");
    let missing = Helm::find_in(None, None).unwrap_err();
    assert!(missing.to_string().contains("install helm, or name it in STEPGATE_HELM"), "{missing}");
}
