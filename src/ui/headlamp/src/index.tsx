// Registers the section "Why" and the settings with Headlamp.

import {
  ConfigStore,
  type DetailsViewSectionProps,
  registerDetailsViewSection,
  registerPluginSettings,
} from '@kinvolk/headlamp-plugin/lib';

import { Section } from './Section';
import { type Addresses, Settings } from './Settings';
import { base } from './why.mjs';

const NAME = 'steersman';
const useAddresses = new ConfigStore<Addresses>(NAME).useConfig();

function Why({ resource }: DetailsViewSectionProps) {
  const address = (useAddresses() ?? {})[resource?.cluster ?? ''];
  // Clusters without an address have no section.
  if (!resource || !base(address)) return null;
  const { kind, apiVersion } = resource.jsonData;
  const object = { kind, apiVersion, namespace: resource.getNamespace(), name: resource.getName() };
  return <Section address={address} object={object} />;
}

registerDetailsViewSection(Why);
registerPluginSettings(NAME, Settings, true);
