import { render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';

import { Section } from './Section';

vi.mock('@kinvolk/headlamp-plugin/lib/CommonComponents', () => ({
  SectionBox: (props: { title: string; children: any }) => (
    <section aria-label={props.title}>{props.children}</section>
  ),
}));

const object = { kind: 'Deployment', apiVersion: 'apps/v1', namespace: 'shop', name: 'web' };
const report = {
  stuck: true, absent: false, leader: 'host_1',
  answers: [
    {
      object, state: 'rolls out', reasons: [],
      waitsFor: [
        {
          object: { kind: 'Pod', apiVersion: 'v1', namespace: 'shop', name: 'web-1' },
          state: 'is Pending',
          reasons: [{ code: 'ImagePull', role: 'cause', message: 'no such image', who: 'author of the image' }],
        },
      ],
    },
  ],
};

function answering(status: number, body: unknown) {
  const get = vi.fn(async () => new Response(JSON.stringify(body), { status }));
  vi.stubGlobal('fetch', get);
  return get;
}

afterEach(() => vi.unstubAllGlobals());

test('the section shows the chain, the cause, who can act, and a link', async () => {
  const get = answering(200, report);
  render(<Section address="http://127.0.0.1:8042/ui/" object={object} />);
  expect(await screen.findAllByText(/no such image/)).toHaveLength(2);
  screen.getByText('Pod shop/web-1 is Pending');
  screen.getByText('ImagePull · can act: author of the image');
  expect(screen.getByRole('link').getAttribute('href')).toBe('http://127.0.0.1:8042/ui/#/why/deployment.apps/shop/web');
  expect(get.mock.calls[0]?.[0 as never]).toBe('http://127.0.0.1:8042/debug/ui/stuck/deployment.apps/shop/web');
});

test('the section shows why there is no answer', async () => {
  answering(403, { error: 'you may not get the path' });
  render(<Section address="http://127.0.0.1:8042" object={object} />);
  await screen.findByText('you may not get the path');
});
