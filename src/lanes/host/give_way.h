// Lets other threads onto the cores that compute. The system stops a thread that never sleeps at
// ticks of its clock only, 4 ms apart on many machines: so long may whoever wakes on that core wait
// for it, such as a program that has asked a server for its health, and the server's own thread.
#pragma once

namespace troika::lanes {

// Gives the calling thread's core to whoever waits for it, if it last did so long enough ago; else
// it only looks at the clock.
void give_way();

}  // namespace troika::lanes
