// The address of `steersman ui` for each cluster.

import { K8s } from '@kinvolk/headlamp-plugin/lib';
import { Box, TextField, Typography } from '@mui/material';

import { base, command } from './why.mjs';

/** Addresses by the name of the cluster. */
export type Addresses = Record<string, string>;

export function Settings(props: { data?: Addresses; onDataChange?: (data: Addresses) => void }) {
  const { data = {}, onDataChange } = props;
  const clusters = Object.keys(K8s.useClustersConf() ?? {});
  return (
    <Box pt={2}>
      {clusters.map(cluster => {
        const address = data[cluster] ?? '';
        const isWrong = address !== '' && base(address) === '';
        return (
          <Box key={cluster} mb={2}>
            <TextField
              fullWidth
              label={`Address of steersman ui for ${cluster}`}
              placeholder="http://127.0.0.1:8042"
              value={address}
              error={isWrong}
              helperText={isWrong ? 'An address begins with http:// or https://' : ''}
              onChange={event => onDataChange?.({ ...data, [cluster]: event.target.value })}
            />
            <Typography variant="body2">
              Start it with <code>{command(address, window.location.origin)}</code>
            </Typography>
          </Box>
        );
      })}
    </Box>
  );
}
