use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn chart(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let mut encoder = archive.into_inner().unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

fn render(certificate: &str) -> String {
    format!(
        "---\n# Source: c/templates/a.yaml\nkind: ConfigMap\nmetadata:\n  name: same\n\
         ---\n# Source: c/templates/secret.yaml\nkind: Secret\nmetadata:\n  name: ca\n  namespace: system\ndata:\n  key: {certificate}\n"
    )
}

#[test]
fn object_template_and_values_are_named() {
    let chart = chart(&[
        ("c/values.yaml", "{}"),
        ("c/templates/a.yaml", "{{- if .Values.other }}\n{{ end }}"),
        (
            "c/templates/secret.yaml",
            "{{- if and .Values.tls.enabled (eq .Values.tls.method \"helm\") }}\n{{ .Values.unrelated }}{{ end }}",
        ),
    ]);
    let text = explain(render("1").as_bytes(), render("2").as_bytes(), &chart);
    let expect = "two renders of the same values differ in Secret system/ca, from c/templates/secret.yaml; \
                  decided by tls.method, tls.enabled: set one of these values so that the chart makes nothing new by itself";
    assert_eq!(text, expect);
}

#[test]
fn without_a_readable_chart_the_object_is_named_still() {
    let text = explain(render("1").as_bytes(), render("2").as_bytes(), b"no chart");
    assert!(text.contains("Secret system/ca") && text.contains("give it that value"), "{text}");
    let text = explain(render("1").as_bytes(), b"", b"");
    assert!(text.contains("the number of objects"), "{text}");
}
