use super::*;

fn expand(template: &str, missing: Missing) -> Result<String, TemplateError> {
    let value_of = |name: &str| match name {
        "a" => Some("abc"),
        "path" => Some("a/b.tar.gz"),
        "empty" => Some(""),
        "u" => Some("héllo"),
        _ => None,
    };
    Template::parse(template)?.expand(&value_of, missing)
}

#[test]
fn every_form_expands() {
    let check = |template: &str, expect: &str| {
        assert_eq!(expand(template, Missing::IsEmpty).as_deref(), Ok(expect), "{template}");
    };
    check("$a $${a} $$", "$a ${a} $");
    check("${a}${none}", "abc");
    check("${none:=d}|${none=d}|${none:-d}|${none:?d}|${none:+d}|${a:+d}|${empty:=d}", "d|d|d|d|d|abc|d");
    check("${none:=x${a}${none:=y}}", "xabcy");
    check("${a^}|${a^^}|${u^^}|${#a}|${#u}", "Abc|ABC|HÉLLO|3|6");
    check("${a:1}|${a:1:1}|${a: -1}|${a:0:-1}|${a:9}|${a:x}", "bc|b|abc|ab||abc");
    check("${path#*/}|${path##*.}|${path%.*}|${path%%.*}", "b.tar.gz|gz|a/b.tar|a/b");
    check("${path/\\//-}|${path//./_}|${path/#a/x}|${path/%gz/xz}", "a-b.tar.gz|a/b_tar_gz|x/b.tar.gz|a/b.tar.xz");
    check("${a//${none}/-}", "-a-b-c-");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let check = |template: &str, kind: TemplateErrorKind, place: (usize, usize)| {
        let error = Template::parse(template).unwrap_err();
        assert_eq!((error.kind, (error.line, error.column)), (kind, place), "{template}");
    };
    check("x\ny: ${}", TemplateErrorKind::NoName, (2, 4));
    check("é ${a-d}", TemplateErrorKind::UnknownOperation('-'), (1, 3));
    check("${a", TemplateErrorKind::NoClosingBrace, (1, 1));
    check("${a^b}", TemplateErrorKind::Leftover, (1, 1));
    check("${a#}", TemplateErrorKind::EmptyArgument, (1, 1));
    check("${a:é}", TemplateErrorKind::NoOffset, (1, 1));
    check("${a/b}", TemplateErrorKind::NoReplacement, (1, 1));
    check("${a:=\n${b!}}", TemplateErrorKind::UnknownOperation('!'), (2, 1));
    check(&"${a:=".repeat(33), TemplateErrorKind::TooDeep, (1, 161));
}

#[test]
fn in_strict_mode_only_defaults_may_miss_their_variable() {
    for template in ["${none}", "${#none}", "${none^}", "${none:1}", "${a:=${none}}"] {
        let error = expand(template, Missing::IsAnError).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::NotSet, "{template}");
    }
    assert_eq!(expand("${none:=d}${none:-}${empty}${a}", Missing::IsAnError).as_deref(), Ok("dabc"));
}

#[test]
fn a_character_may_be_cut_if_it_is_put_together_again() {
    assert_eq!(expand("${u:0:2}${u:2}", Missing::IsEmpty).as_deref(), Ok("héllo"));
    let error = expand("${u:0:2}", Missing::IsEmpty).unwrap_err();
    assert_eq!(error.to_string(), "line 1, column 1: a character cut in two in `${u…}`");
}
