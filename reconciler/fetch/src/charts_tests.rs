use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::Mirror;

fn request(chart: &str, values: &str) -> ChartRequest {
    ChartRequest {
        chart: chart.to_owned(),
        digest: None,
        locked: None,
        name: "cilium".to_owned(),
        namespace: "kube-system".to_owned(),
        kubernetes_version: "1.31".to_owned(),
        values: values.to_owned(),
    }
}

/// A mirror with one chart, and a program in place of helm that logs its calls there.
fn stand_in(folder: &Path, script: &str) -> (Arc<Mirror>, Helm) {
    let chart = folder.join("example.org/cilium");
    std::fs::create_dir_all(&chart).unwrap();
    std::fs::write(chart.join("1.0.0.tgz"), "chart").unwrap();
    let program = folder.join("helm");
    let log = folder.join("log");
    std::fs::write(&program, format!("#!/bin/sh\necho call >> {}\n{script}\n", log.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (Arc::new(Mirror::open([folder.to_owned()]).unwrap()), Helm::new(program))
}

fn calls(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default().lines().count()
}

#[test]
fn a_chart_is_rendered_twice_when_new_and_never_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, helm) = stand_in(folder.path(), "echo kind: X");
    let charts = HelmCharts::new(Ok(helm), mirror);
    for _ in 0..3 {
        assert_eq!(charts.template(&request("example.org/cilium:1.0.0", "{}")).unwrap(), b"kind: X\n");
    }
    assert_eq!(calls(folder.path()), 2);
    charts.template(&request("example.org/cilium:1.0.0", "{\"a\":1}")).unwrap();
    assert_eq!(calls(folder.path()), 4);
}

#[test]
fn renders_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, helm) = stand_in(folder.path(), "echo 'kind: Secret'; echo \"key: $$\"");
    let error = HelmCharts::new(Ok(helm), mirror).template(&request("example.org/cilium:1.0.0", "{}")).unwrap_err();
    assert!(error.to_string().contains("two renders of the same values differ"), "{error}");
}

#[test]
fn missing_helm_and_missing_chart_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, helm) = stand_in(folder.path(), "");
    let missing = Err(HelmError::Missing { searched: "there is no helm on PATH".to_owned() });
    let error =
        HelmCharts::new(missing, mirror.clone()).template(&request("example.org/cilium:1.0.0", "{}")).unwrap_err();
    assert!(matches!(&error, ChartError::NoHelm { .. }) && error.to_string().contains("install helm"), "{error}");
    let error = HelmCharts::new(Ok(helm), mirror).template(&request("example.org/cilium:2.0.0", "{}")).unwrap_err();
    assert!(matches!(&error, ChartError::Fetch(_)) && error.to_string().contains("cilium/2.0.0.tgz"), "{error}");
}

/// The published chart and the real program, where both are present.
#[test]
fn the_real_cilium_chart_is_refused_with_the_value_that_makes_certificates() {
    let Some(mirror) = skip::shared("data/mirror") else { return };
    let helm = match Helm::find() {
        Ok(helm) => helm,
        Err(error) => return skip::missing(error),
    };
    let charts = HelmCharts::new(Ok(helm), Arc::new(Mirror::open([mirror]).unwrap()));
    let chart = "public.ecr.aws/eks/cilium/cilium:1.19.4-1";
    let error = charts.template(&request(chart, "{}")).unwrap_err().to_string();
    assert!(
        error.contains("Secret kube-system/cilium-ca") && error.contains("decided by hubble.tls.auto.method"),
        "{error}"
    );
    let text = charts.template(&request(chart, r#"{"hubble":{"enabled":false}}"#)).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("kind: DaemonSet"));
}

#[test]
fn a_chart_that_is_not_the_locked_one_is_refused_before_helm_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, helm) = stand_in(folder.path(), "echo kind: X");
    let charts = HelmCharts::new(Ok(helm), mirror);
    let locked = |bytes: &[u8]| ChartRequest {
        locked: Some(Digest::of(bytes).to_string()),
        ..request("example.org/cilium:1.0.0", "{}")
    };
    let error = charts.template(&locked(b"another chart")).unwrap_err();
    assert!(matches!(error, ChartError::LockMismatch { .. }), "{error}");
    assert_eq!(calls(folder.path()), 0);
    charts.template(&locked(b"chart")).unwrap();
}
