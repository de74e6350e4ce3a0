//! Numbers in the text format of Prometheus.

/// The values of a metric, whatever its labels, as whole numbers.
pub(crate) fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = u64> + 'a {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once('}').map(|(_, value)| value)?,
            None => rest.strip_prefix(' ')?,
        };
        number(value)
    })
}

/// The value that stands at the end of a line, as a whole number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let value: f64 = text.split_whitespace().next()?.parse().ok()?;
    // Large numbers are written with an exponent.
    format!("{value:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn a_metric_is_read_with_labels_and_without() {
        let text = "# HELP size bytes\n# TYPE size gauge\nsize{id=\"etcd-0\"} 4.091904e+06\nsize{id=\"}\"} 7 1700000000\n\
                    size_total 3\nsize 5\nsize{id=\"x\"} NaN\nsize -1\n";
        assert_eq!(values(text, "size").collect::<Vec<_>>(), [4_091_904, 7, 5]);
        assert_eq!(values(text, "siz").count(), 0);
    }
}
