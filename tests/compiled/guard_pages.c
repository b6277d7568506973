// Memory for arrays of NumPy that ends, or begins, at a page that nobody may read or write.

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// NumPy's PyDataMem_Handler.
struct Handler {
    char name[127];
    uint8_t version;
    void* context;
    void* (*allocate)(void*, size_t);
    void* (*allocate_zeros)(void*, size_t, size_t);
    void* (*reallocate)(void*, void*, size_t);
    void (*release)(void*, void*, size_t);
};

static int at_the_start;

// A page for the size and, unless arrays end at one, as the protected one; the array's pages; a protected page.
static void* allocate(void* context, size_t size) {
    const size_t page = sysconf(_SC_PAGESIZE), asked = size ? size : 1, inner = (asked + page - 1) / page * page;
    char* base = mmap(NULL, inner + 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    memcpy(base, &asked, sizeof asked);
    mprotect(base + page, page, PROT_NONE);
    mprotect(base + 2 * page + inner, page, PROT_NONE);
    char* first = base + 2 * page;
    if (inner <= 8 * page) memset(first, 0xCB, inner);  // what nobody has written is no number that tests expect
    return at_the_start ? first : first + inner - asked;
}

static char* base_of(void* place) {
    const size_t page = sysconf(_SC_PAGESIZE);
    return (char*)((uintptr_t)place / page * page - 2 * page);
}

static size_t size_of(void* place) {
    size_t size;
    memcpy(&size, base_of(place), sizeof size);
    return size;
}

static void release(void* context, void* place, size_t size) {
    const size_t page = sysconf(_SC_PAGESIZE);
    if (place) munmap(base_of(place), (size_of(place) + page - 1) / page * page + 3 * page);
}

static void* allocate_zeros(void* context, size_t count, size_t size) {
    void* place = allocate(context, count * size);
    if (place) memset(place, 0, count * size);
    return place;
}

static void* reallocate(void* context, void* place, size_t size) {
    void* moved = allocate(context, size);
    if (moved && place) {
        const size_t before = size_of(place);
        memcpy(moved, place, before < size ? before : size);
        release(context, place, before);
    }
    return moved;
}

struct Handler* handler(int start) {
    static struct Handler found = {"guard pages", 1, NULL, allocate, allocate_zeros, reallocate, release};
    at_the_start = start;
    return &found;
}
