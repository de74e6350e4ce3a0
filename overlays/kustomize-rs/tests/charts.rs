//! What becomes of objects that a chart made. The renderer is not helm here: `tests/differential` compares with helm itself.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::Mutex;

use kustomize_rs::{
    ChartPull, ChartRenderer, ChartTemplate, MemoryFileSystem, Options, Outside, OutsideError, SharedFileSystem,
    build_with,
};

/// Renders every chart to the same text.
struct Text(&'static str);

impl ChartRenderer for Text {
    fn pull(&self, chart: &ChartPull) -> Result<SharedFileSystem, OutsideError> {
        Err(OutsideError(format!("{} is not pulled", chart.name)))
    }

    fn template(&self, _: &ChartTemplate<'_>) -> Result<Vec<u8>, OutsideError> {
        Ok(self.0.into())
    }
}

/// Builds `base` with its chart `web`, and `above` over it.
fn check(base: &str, above: &str, rendered: &'static str, expected: &str) {
    let mut files = MemoryFileSystem::new();
    files.insert("kustomization.yaml", format!("resources: [base]\n{above}").into_bytes());
    files.insert("base/kustomization.yaml", base.as_bytes());
    files.insert("base/charts/web/values.yaml", *b"");
    let outside = Outside { charts: Some(&Text(rendered)), remotes: None };
    let built = build_with(&files, "", &Options::default(), outside).unwrap();
    assert_eq!(built.to_yaml(), expected, "{base}\n{above}");
}

const CHART: &str = "helmCharts: [{name: web, releaseName: one}]\n";

#[test]
fn namespaces_are_left_to_the_chart_also_where_a_generator_merges() {
    let above = "configMapGenerator: [{name: settings, behavior: merge, literals: [b=two]}]\nnamespace: prod\n";
    let rendered = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: one}\n";
    let expected = "apiVersion: v1\ndata:\n  a: one\n  b: two\nkind: ConfigMap\nmetadata:\n  name: settings\n";
    check(CHART, above, rendered, expected);
}

#[test]
fn empty_annotations_and_a_second_metadata_go_with_the_mark_of_a_chart() {
    let rendered = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, annotations: ~}\nmetadata: {}\n";
    check(CHART, "", rendered, "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n");
}

#[test]
fn inline_values_are_merged_with_a_document_and_not_with_an_empty_file() {
    let rendered = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n";
    let build = |values: &str, merge: &str| {
        let mut files = MemoryFileSystem::new();
        let chart =
            format!("helmCharts: [{{name: web, releaseName: one, valuesInline: {{a: 1}}, valuesMerge: {merge}}}]\n");
        files.insert("kustomization.yaml", chart.into_bytes());
        files.insert("charts/web/values.yaml", values.as_bytes());
        let outside = Outside { charts: Some(&Text(rendered)), remotes: None };
        build_with(&files, "", &Options::default(), outside).map(|built| built.len()).map_err(|error| error.to_string())
    };
    for values in ["", "\n", "# nothing\n"] {
        for merge in ["merge", "override"] {
            let refused = build(values, merge).unwrap_err();
            assert!(refused.contains("`web`") && refused.contains("values file is empty"), "{refused}");
        }
        assert_eq!(build(values, "replace"), Ok(1));
    }
    for values in ["---\n", "{}\n", "null\n", "b: 2\n"] {
        assert_eq!(build(values, "override"), Ok(1), "{values:?}");
    }
}

/// Keeps the values that charts are rendered with.
struct Values(Mutex<Vec<u8>>);

impl ChartRenderer for Values {
    fn pull(&self, chart: &ChartPull) -> Result<SharedFileSystem, OutsideError> {
        Err(OutsideError(format!("{} is not pulled", chart.name)))
    }

    fn template(&self, template: &ChartTemplate<'_>) -> Result<Vec<u8>, OutsideError> {
        self.0.lock().unwrap().clone_from(&template.values);
        Ok(Vec::new())
    }
}

/// The values that a chart is rendered with, of its file and `inline` ones, or why there are none.
fn merged(file: &str, inline: &str, merge: &str) -> Result<String, String> {
    let mut files = MemoryFileSystem::new();
    let chart =
        format!("helmCharts: [{{name: web, releaseName: one, valuesInline: {inline}, valuesMerge: {merge}}}]\n");
    files.insert("kustomization.yaml", chart.into_bytes());
    files.insert("charts/web/values.yaml", file.as_bytes());
    let charts = Values(Mutex::default());
    let outside = Outside { charts: Some(&charts), remotes: None };
    build_with(&files, "", &Options::default(), outside).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&charts.0.lock().unwrap()).into_owned())
}

#[test]
fn a_number_in_the_place_of_a_quoted_text_stays_a_number() {
    let values = merged("port: \"http\"\nzone: \"1\"\n", "{port: 8080}", "override");
    assert_eq!(values.unwrap(), "port: 8080\nzone: \"1\"\n");
}

#[test]
fn a_values_file_that_is_null_clears_what_it_is_merged_into() {
    for file in ["null\n", "---\n", "# nothing\n---\n"] {
        assert_eq!(merged(file, "{port: 8080}", "merge").unwrap(), "{}\n");
        assert_eq!(merged(file, "{port: 8080}", "override").unwrap(), "port: 8080\n");
    }
}

#[test]
fn inline_values_that_are_left_out_are_null() {
    for inline in ["{port: , zone: {name: }}", "{port: ~, zone: {name: ~}}"] {
        assert_eq!(merged("{}\n", inline, "merge").unwrap(), "port: null\nzone:\n  name: null\n");
    }
}

#[test]
fn merged_values_are_refused_where_no_map_can_hold_them() {
    for order in ["merge", "override"] {
        let refused = merged("list:\n- a: !!bool yes\n", "{port: 8080}", order).unwrap_err();
        assert!(refused.starts_with("charts/web/values.yaml:2:13:"), "{refused}");
        let refused = merged("b: {true: 1}\n", "{port: 8080}", order).unwrap_err();
        assert!(refused.starts_with("charts/web/values.yaml:1:5:"), "{refused}");
    }
    // Only of the first level keys may be anything.
    assert_eq!(merged("true: 1\n", "{port: 8080}", "override").unwrap(), "port: 8080\n\"true\": 1\n");
}

#[test]
fn keys_of_values_that_are_no_texts_are_refused_below_the_first_level_and_stay_as_written_on_it() {
    for key in ["1", "0x10", "1.5", "true", "~", "2001-01-01"] {
        let refused = merged(&format!("a: {{{key}: b}}\n"), "{c: d}", "override").unwrap_err();
        assert!(refused.contains(&format!("the key `{key}` is not text")), "{refused}");
        assert!(merged(&format!("a: [{{{key}: b}}]\n"), "{c: d}", "merge").is_err(), "{key}");
        let quoted = merged(&format!("a: {{'{key}': b}}\n"), "{c: d}", "override").unwrap();
        assert_eq!(quoted, format!("a:\n  \"{key}\": b\nc: d\n"));
        let first = merged(&format!("{key}: b\n"), "{c: d}", "override").unwrap();
        assert!(first.contains(&format!("\"{key}\": b\n")), "{first}");
    }
}
