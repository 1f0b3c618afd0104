#include "trainer/steps/agreement.h"

#include <cstring>

#include "engine/base/check.h"
#include "engine/base/signals.h"

namespace mtf {

Agreement::Agreement(Communicator& communicator, std::function<double()> seconds)
    : communicator_(communicator), seconds_(std::move(seconds)) {}

Control Agreement::own() const { return {seconds_(), StopSignals::received()}; }

void Agreement::begin() {
  if (communicator_.processes() == 1) return;
  const Control control = own();
  std::string bytes(sizeof(Control), '\0');
  std::memcpy(bytes.data(), &control, sizeof(Control));
  pending_ = communicator_.start_gather(std::move(bytes), "time and signals");
}

Control Agreement::end() {
  if (communicator_.processes() == 1) return own();
  Control result;
  const std::vector<std::string> all = pending_->wait();
  for (size_t process = 0; process < all.size(); ++process) {
    Control control;
    MTF_CHECK(all[process].size() == sizeof(Control), "{} bytes of time and signals", all[process].size());
    std::memcpy(&control, all[process].data(), sizeof(Control));
    if (process == 0) result.seconds = control.seconds;
    if (result.signal == 0) result.signal = control.signal;
  }
  return result;
}

}  // namespace mtf
