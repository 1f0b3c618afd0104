// A plugin of another build, as far as programs look at it.
#include "engine/backend/device_plugin.h"

extern "C" const mtf::DevicePlugin* mtf_device_plugin() {
  static const mtf::DevicePlugin plugin;
  return &plugin;
}
