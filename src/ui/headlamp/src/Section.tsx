// The section "Why" of an object.

import { SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, Link, Typography } from '@mui/material';
import { useEffect, useState } from 'react';

import { ask, lines, page, source, title, verdict } from './why.mjs';
import type { Reason, Report, Subject } from './why.mjs';

/** Milliseconds between two questions while the object is in sight. */
const PERIOD = 10000;

/** A sign for each role, so that no colour alone carries it. */
const SIGNS = { cause: '▲', wait: '◔', fact: '•' };

export function Section(props: { address: string; object: Subject }) {
  const { address, object } = props;
  const [report, setReport] = useState<Report>();
  const [error, setError] = useState('');
  const key = JSON.stringify(object);

  useEffect(() => {
    const stop = new AbortController();
    const update = () =>
      ask(fetch, address, JSON.parse(key), window.location.origin, stop.signal).then(
        found => {
          setReport(found);
          setError('');
        },
        (failed: Error) => stop.signal.aborted || setError(failed.message)
      );
    setReport(undefined);
    update();
    const timer = setInterval(() => document.hidden || update(), PERIOD);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [address, key]);

  return (
    <SectionBox title="Why">
      <Box p={2}>
        {error && <Typography color="error">{error}</Typography>}
        {!report && !error && <Typography color="text.secondary">Reading …</Typography>}
        {report && (
          <>
            <Typography fontWeight={600}>{verdict(report)}</Typography>
            {report.answers.slice(0, 1).flatMap(answer => lines(answer)).map((line, at) => (
              <Box key={at} ml={line.depth * 3} mt={1}>
                <Typography>
                  {title(line.object)} {line.state}
                </Typography>
                {line.reasons.map((reason, number) => (
                  <Why key={number} reason={reason} />
                ))}
              </Box>
            ))}
            <Typography variant="body2" color="text.secondary" mt={1}>
              {source(report)}.{' '}
              <Link href={page(address, object)} target="_blank" rel="noreferrer">
                Open in Steersman
              </Link>
            </Typography>
          </>
        )}
      </Box>
    </SectionBox>
  );
}

function Why(props: { reason: Reason }) {
  const { code, role, message, by, who, nextTry } = props.reason;
  const notes = [code, by, who && `can act: ${who}`, nextTry && `next try ${new Date(nextTry).toLocaleTimeString()}`];
  return (
    <Box ml={3}>
      <Typography color={role === 'cause' ? 'error' : undefined}>
        <span role="img" aria-label={role}>
          {SIGNS[role]}
        </span>{' '}
        {message}
      </Typography>
      <Typography variant="body2" color="text.secondary">
        {notes.filter(Boolean).join(' · ')}
      </Typography>
    </Box>
  );
}
