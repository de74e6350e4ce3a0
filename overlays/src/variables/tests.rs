use super::*;

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn replaces_as_clusterctl_does() {
    let known = values(&[("A", "one"), ("EMPTY", ""), ("UP", "aBc")]);
    for (source, expected) in [
        ("plain", "plain"),
        ("${A}", "one"),
        ("x${A}y${A}", "xoneyone"),
        ("$A $ { $1", "$A $ { $1"),
        ("$${A}", "${A}"),
        ("$$${A}", "$one"),
        ("a$$b", "a$b"),
        ("${ A }|${ A}|${A }", "one|one|one"),
        ("${B:=d}|${B=d}|${B:-d}|${B:?d}|${B:+d}", "d|d|d|d|d"),
        ("${A:=d}|${A:-d}|${A:+d}", "one|one|one"),
        ("${EMPTY}|${EMPTY:=d}", "|d"),
        ("${B:=\"\"}", "\"\""),
        ("${B=''}", "''"),
        ("${B:=:8443}", ":8443"),
        ("${B:=x${A}y}", "xoney"),
        ("${B:=${C:=deep}}", "deep"),
        ("${B:=a b: {c}", "a b: {c"),
        ("${A:1}|${A:0:2}|${A/n/x}|${A#o}|${A%n*}", "ne|on|oxe|ne|o"),
        ("${UP^}|${UP^^}|${UP,}|${UP,,}|${#UP}", "ABc|ABC|aBc|abc|3"),
    ] {
        assert_eq!(substitute(source, &known).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn names_every_missing_variable_with_its_line() {
    let source = "a: ${B}\nb: ${A}\nc: ${B:=later default does not help}\nd: ${C:=ok}\ne: ${D:=}\n";
    let error = substitute(source, &BTreeMap::new()).unwrap_err();
    assert_eq!(error.to_string(), "no value for ${A} (line 2), ${B} (line 1), ${D} (line 5)");
}

#[test]
fn refuses_what_cannot_be_read_with_its_place() {
    for (source, line, column) in [
        ("a\nb: ${}", 2, 4),
        ("${A", 1, 1),
        ("ü${A-b}", 1, 2),
        ("${A:=x", 1, 1),
        ("${A.b}", 1, 1),
        ("${A:}", 1, 1),
        ("${A/b}", 1, 1),
    ] {
        match substitute(source, &values(&[("A", "x")])) {
            Err(VariableError::Malformed { line: at, column: of, .. }) => {
                assert_eq!((at, of), (line, column), "{source}");
            }
            other => panic!("{source}: {other:?}"),
        }
    }
    let deep = "${A:=".repeat(40) + "x" + &"}".repeat(40);
    assert!(matches!(substitute(&deep, &BTreeMap::new()), Err(VariableError::Malformed { .. })));
}

#[test]
fn tells_changed_defaults() {
    let old = "a=${A:=false},b=${B:=1},c=${C},gone=${G:=1}";
    let new = "a=${A:=true},b=${B:=1},c=${C:=x},fresh=${F:=1}";
    let changed = changed_defaults(old, new).unwrap();
    let shown: Vec<_> =
        changed.iter().map(|change| (change.name.as_str(), change.old.as_deref(), change.new.as_deref())).collect();
    assert_eq!(shown, [("A", Some("false"), Some("true")), ("C", None, Some("x"))]);
}
