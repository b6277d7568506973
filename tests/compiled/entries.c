// Notes which functions are entered, by a breakpoint at the beginning of each, which goes when it is met.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 4096, INT3 = 0xCC };

static uint8_t* places[MOST];
static uint8_t bytes[MOST];
static volatile uint8_t entered[MOST];
static int64_t count;

// Threads may meet a breakpoint at the same time: each puts the byte back, and goes on there.
static void met(int number, siginfo_t* info, void* context) {
    greg_t* pointer = &((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
    uint8_t* place = (uint8_t*)(uintptr_t)*pointer - 1;
    for (int64_t i = 0; i < count; i++) {
        if (places[i] != place) continue;
        entered[i] = 1;
        *(volatile uint8_t*)place = bytes[i];
        *pointer = (greg_t)(uintptr_t)place;
        return;
    }
    signal(SIGTRAP, SIG_DFL);  // somebody else's
}

// Watches functions at these addresses; false where code may not be written.
int watch(uint8_t** functions, int64_t number) {
    const uintptr_t page = sysconf(_SC_PAGESIZE);
    struct sigaction action = {0};
    action.sa_sigaction = met, action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (number > MOST || sigaction(SIGTRAP, &action, NULL)) return 0;
    for (int64_t i = 0; i < number; i++) places[i] = functions[i], bytes[i] = *functions[i];
    count = number;
    for (int64_t i = 0; i < number; i++) {
        void* first = (void*)((uintptr_t)functions[i] / page * page);
        if (mprotect(first, page, PROT_READ | PROT_WRITE | PROT_EXEC)) return 0;
        *functions[i] = INT3;
    }
    return 1;
}

int was_entered(int64_t i) { return entered[i]; }
