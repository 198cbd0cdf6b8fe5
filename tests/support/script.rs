//! What people type and what they see, as text.
//!
//! A line beginning with `$` is a command of kubectl that succeeds, with `$!` one that fails, and
//! with `~` one that is repeated until it prints what is wanted. Below it stand, indented, the
//! texts that it prints to either stream; after `no:` one that it must not print. How many blanks
//! there are is of no matter. Words are grouped by single quotes, `NAME=value` in front sets a
//! variable of the environment as in a shell, and lines with `#` are comments.

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Well,
    Badly,
    WellAtLast,
}

/// A command and what is wanted of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) line: &'a str,
    pub(crate) ends: Ends,
    pub(crate) prints: Vec<&'a str>,
    pub(crate) does_not_print: Vec<&'a str>,
}

/// The steps of a script.
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
            _ => panic!("neither a command nor what one prints: {line}"),
        }
    }
    steps
}

impl Step<'_> {
    /// Variables of the environment, and the words after them.
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

    /// What is wrong with an output, if anything is.
    pub(crate) fn misses(&self, output: &str) -> Option<String> {
        let output = evenly(output);
        if let Some(text) = self
            .prints
            .iter()
            .find(|text| !output.contains(&evenly(text)))
        {
            return Some(format!("does not print: {text}"));
        }
        self.does_not_print
            .iter()
            .find(|text| output.contains(&evenly(text)))
            .map(|text| format!("prints: {text}"))
    }
}

fn evenly(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words
                .last_mut()
                .expect("there is one from the start")
                .push(letter),
        }
    }
    assert!(!quoted, "a quote is not closed: {line}");
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn a_script_is_commands_and_what_they_print() {
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
