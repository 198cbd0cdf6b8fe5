//! Scripts of kubectl commands and their expected output.
//!
//! - A line with `$` is a command that must succeed, with `$!` one that must fail.
//! - A line with `~` is a command that is repeated until its output is as expected.
//! - Indented lines below a command are texts that it must print, to either stream. After `no:`
//!   stands a text that it must not print. Runs of spaces count as one.
//! - Single quotes group words, and `NAME=value` in front sets an environment variable, as in a
//!   shell. Lines with `#` are comments.

/// The expected result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Well,
    Badly,
    WellAtLast,
}

/// A command with its expected result and output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) line: &'a str,
    pub(crate) ends: Ends,
    pub(crate) prints: Vec<&'a str>,
    pub(crate) does_not_print: Vec<&'a str>,
}

/// Parses the steps of a script.
pub(crate) fn parse(script: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in script
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let command = [
            ("$! ", Ends::Badly),
            ("$ ", Ends::Well),
            ("~ ", Ends::WellAtLast),
        ]
        .into_iter()
        .find_map(|(mark, ends)| Some((line.strip_prefix(mark)?, ends)));
        match (command, steps.last_mut()) {
            (Some((line, ends)), _) => steps.push(Step {
                line,
                ends,
                prints: Vec::new(),
                does_not_print: Vec::new(),
            }),
            (None, Some(step)) if line.starts_with("    ") => {
                match line.trim().strip_prefix("no: ") {
                    Some(text) => step.does_not_print.push(text),
                    None => step.prints.push(line.trim()),
                }
            }
            _ => panic!("neither a command nor expected output: {line}"),
        }
    }
    steps
}

impl Step<'_> {
    /// Environment variables and arguments of the command.
    pub(crate) fn words(&self) -> (Vec<(String, String)>, Vec<String>) {
        let mut words = split(self.line).into_iter().peekable();
        let mut variables = Vec::new();
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        while let Some((name, value)) = words
            .peek()
            .and_then(|word| word.split_once('='))
            .filter(|(name, _)| is_name(name))
        {
            variables.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        (variables, words.collect())
    }

    /// The difference between `output` and the expected output, if any.
    pub(crate) fn misses(&self, output: &str) -> Option<String> {
        let output = normalized(output);
        if let Some(text) = self
            .prints
            .iter()
            .find(|text| !output.contains(&normalized(text)))
        {
            return Some(format!("does not print: {text}"));
        }
        self.does_not_print
            .iter()
            .find(|text| output.contains(&normalized(text)))
            .map(|text| format!("prints: {text}"))
    }
}

/// `text` with single spaces between words.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a command at spaces outside of single quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words
                .last_mut()
                .expect("the list starts with one word")
                .push(letter),
        }
    }
    assert!(!quoted, "a quote is not closed: {line}");
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn scripts_consist_of_commands_and_expected_output() {
    let steps =
        parse("# why\n$ EDITOR='sed -i' edit x -o 'a b'\n    a  b\n    no: c\n$! get y\n~ get z\n");
    let ends: Vec<Ends> = steps.iter().map(|step| step.ends).collect();
    assert_eq!(ends, [Ends::Well, Ends::Badly, Ends::WellAtLast]);
    let (variables, words) = steps[0].words();
    assert_eq!(variables, [("EDITOR".to_owned(), "sed -i".to_owned())]);
    assert_eq!(words, ["edit", "x", "-o", "a b"]);
    assert_eq!(steps[0].misses("x a\n b"), None);
    assert_eq!(steps[0].misses("a b c").unwrap(), "prints: c");
    assert_eq!(steps[0].misses("").unwrap(), "does not print: a  b");
}
